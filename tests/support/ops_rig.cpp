#include "support/ops_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/convert.h"

namespace fulmar::support {

namespace {

Doubles widen(const std::vector<float>& values) { return Doubles(values.begin(), values.end()); }

}  // namespace

Buffer& OpsRig::allocate(size_t bytes) {
  Result<Buffer> buffer = ops_.allocate(bytes);
  if (!buffer.ok()) ADD_FAILURE() << buffer.error().text;
  return buffers_.emplace_back(std::move(buffer).value());
}

// Random numbers again and again from a period that no width divides: large models need many.
std::vector<float> OpsRig::numbers(int64_t count, DType dtype, double low, double high) {
  constexpr int64_t kPeriod = 1048573;
  std::vector<float> values(static_cast<size_t>(std::min(count, kPeriod)));
  const double step = (high - low) * 0x1p-32;
  for (float& value : values) value = static_cast<float>(low + step * random_());
  for (const DType type : {rounded_to_, dtype}) {
    if (type == DType::f32) continue;
    std::vector<std::byte> stored(values.size() * size_of(type));
    from_f32(values, type, stored.data());
    to_f32(type, stored.data(), values);
  }
  values.reserve(static_cast<size_t>(count));
  while (static_cast<int64_t>(values.size()) < count) {
    const int64_t more = std::min(kPeriod, count - static_cast<int64_t>(values.size()));
    values.insert(values.end(), values.begin(), values.begin() + more);
  }
  return values;
}

Made OpsRig::stored(const std::vector<float>& values, int64_t rows, int64_t cols, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  from_f32(values, dtype, bytes.data());
  Buffer& buffer = allocate(bytes.size());
  ops_.write(buffer.data(), bytes.data(), bytes.size());
  return {buffer.matrix(dtype, rows, cols), widen(values)};
}

Made OpsRig::tensor(int64_t rows, int64_t cols, DType dtype, double low, double high) {
  return stored(numbers(rows * cols, dtype, low, high), rows, cols, dtype);
}

Made OpsRig::sparse_tensor(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros) {
  std::vector<float> values = numbers(rows * cols, dtype, low, high);
  const double limit = zeros * 0x1p32;
  for (float& value : values) value = random_() < limit ? 0.0f : value;
  return stored(values, rows, cols, dtype);
}

Made OpsRig::tensor_of(const Doubles& values, int64_t rows, int64_t cols, DType dtype) {
  return stored(std::vector<float>(values.begin(), values.end()), rows, cols, dtype);
}

Made OpsRig::tensor(int64_t rows, int64_t cols, double low, double high) {
  return tensor(rows, cols, ops_.activation_dtype(), low, high);
}

Made OpsRig::vector(int64_t rows, int64_t cols, double low, double high) {
  const std::vector<float> values = numbers(rows * cols, DType::f32, low, high);
  Result<Tensor> imported = ops_.import_vector(values, rows, cols);
  if (!imported.ok()) ADD_FAILURE() << imported.error().text;
  return {imported.value(), widen(values)};
}

MadeNorm OpsRig::norm(int64_t cols) {
  const Made weight = vector(1, cols, 0.5, 1.5), bias = vector(1, cols, -0.3, 0.3);
  return {{weight.tensor, bias.tensor}, weight.values, bias.values};
}

MadeWeight OpsRig::weight(int64_t out, int64_t in, DType dtype, WeightRole role, bool transposed) {
  const std::vector<float> values = weight_numbers(out, in, dtype);
  return {import(values, out, in, dtype, role, transposed), widen(values)};
}

Weight OpsRig::bare_weight(int64_t out, int64_t in, DType dtype, WeightRole role, bool transposed) {
  return import(weight_numbers(out, in, dtype), out, in, dtype, role, transposed);
}

std::vector<float> OpsRig::weight_numbers(int64_t out, int64_t in, DType dtype) {
  const double bound = std::sqrt(3.0 / static_cast<double>(in));
  return numbers(out * in, dtype, -bound, bound);
}

Weight OpsRig::import(const std::vector<float>& values, int64_t out, int64_t in, DType dtype, WeightRole role,
                      bool transposed) {
  std::vector<float> stored;
  if (transposed) {
    stored.resize(values.size());
    for (int64_t o = 0; o < out; o++) {
      for (int64_t i = 0; i < in; i++) {
        stored[static_cast<size_t>(i * out + o)] = values[static_cast<size_t>(o * in + i)];
      }
    }
  }
  std::vector<std::byte>& host = host_.emplace_back(values.size() * size_of(dtype));
  from_f32(transposed ? stored : values, dtype, host.data());
  const int64_t row_stride = transposed ? 1 : in, col_stride = transposed ? out : 1;
  Result<Weight> imported = ops_.import_weight({host.data(), dtype, out, in, row_stride, col_stride}, role);
  if (!imported.ok()) ADD_FAILURE() << imported.error().text;
  return imported.value();
}

Tensor OpsRig::empty(int64_t rows, int64_t cols, DType dtype) {
  return allocate(static_cast<size_t>(rows * cols) * size_of(dtype)).matrix(dtype, rows, cols);
}

Tensor OpsRig::empty(int64_t rows, int64_t cols) { return empty(rows, cols, ops_.activation_dtype()); }

Made OpsRig::same(const Made& from) {
  const Tensor copy = empty(from.tensor.rows, from.tensor.cols, from.tensor.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(from.tensor.count()) * size_of(from.tensor.dtype));
  ops_.read(bytes.data(), from.tensor.data, bytes.size());
  ops_.write(copy.data, bytes.data(), bytes.size());
  return {copy, from.values};
}

Batch OpsRig::begin(const std::vector<int32_t>& lengths, int64_t n_head, int64_t head_size) {
  const auto sequences = static_cast<int32_t>(lengths.size());
  constexpr int32_t kUntouched = 2;  // slots in front that no sequence uses
  const StateLayout layout{
      1, n_head * head_size, n_head, head_size, ops_.shift_dtype(), ops_.wkv_dtype(), kShiftsAndWkv};
  constexpr int32_t kSpare = 1;  // behind them, as in any pool
  state_ = {nullptr, sequences + kUntouched + kSpare, layout};
  const size_t bytes = layout.slot_bytes() * static_cast<size_t>(state_.slots);
  state_.base = static_cast<std::byte*>(allocate(bytes).data());
  for (int64_t slot = 0; slot < state_.slots; slot++) {
    std::vector<std::byte> host(layout.slot_bytes());
    for (size_t i = 0; i < layout.fields.size(); i++) {
      const DType dtype = layout.dtype(layout.fields[i]);
      from_f32(numbers(layout.count(layout.fields[i]), dtype, -1, 1), dtype,
               host.data() + layout.offset(0, i));
    }
    ops_.write_slot(state_, slot, host);
  }
  start_.assign(1, 0);
  slot_.clear();
  wanted_.clear();
  for (int32_t s = 0; s < sequences; s++) {
    start_.push_back(start_.back() + lengths[static_cast<size_t>(s)]);
    slot_.push_back(kUntouched + sequences - 1 - s);
    wanted_.push_back(start_.back() - 1);
  }
  token_.resize(static_cast<size_t>(start_.back()));
  for (int32_t& token : token_) token = static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab_));
  return ops_.begin_step({.token = token_, .start = start_, .slot = slot_, .wanted = wanted_}, state_);
}

Doubles OpsRig::read(Tensor tensor) {
  Doubles out;
  std::vector<float> row(static_cast<size_t>(tensor.cols));
  std::vector<std::byte> stored(row.size() * size_of(tensor.dtype));
  for (int64_t i = 0; i < tensor.rows; i++) {
    ops_.read(stored.data(), tensor.slice_rows(i, 1).data, stored.size());
    to_f32(tensor.dtype, stored.data(), row);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

Doubles OpsRig::read(StateField field, int64_t slot, int64_t count) {
  return read(Tensor{field.at<std::byte>(slot), field.dtype, 1, count, count});
}

std::vector<std::byte> OpsRig::read_all_slots() {
  std::vector<std::byte> bytes(state_.layout.slot_bytes() * static_cast<size_t>(state_.slots));
  ops_.read(bytes.data(), state_.base, bytes.size());
  return bytes;
}

void OpsRig::write_all_slots(const std::vector<std::byte>& bytes) {
  ops_.write(state_.base, bytes.data(), bytes.size());
}

double tolerance_of(DType computed_in) {
  switch (computed_in) {
    case DType::f16:
      return 2e-3;
    case DType::bf16:
      return 2.5e-2;
    default:
      return 3e-6;
  }
}

void expect_close(const Doubles& got, const Doubles& want, DType computed_in, const std::string& what) {
  expect_close(got, want, tolerance_of(computed_in), what);
}

void expect_close(const Doubles& got, const Doubles& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); i++) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  // Negated, so that a NaN fails.
  EXPECT_FALSE(!(std::sqrt(error) <= tolerance * std::sqrt(size) + 1e-30))
      << what << ": error " << std::sqrt(error) << " of " << std::sqrt(size);
}

}  // namespace fulmar::support
