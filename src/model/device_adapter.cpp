#include "model/device_adapter.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace fulmar {

namespace {

Error misfit(const HostDelta& delta, const std::string& text) {
  return {ErrorKind::invalid, "the adapter's change of '" + delta.matrix + "' " + text};
}

std::string shape_of(const HostMatrix& matrix) {
  return "[" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.cols) + "]";
}

Status check_shape(const HostDelta& delta, const char* part, const HostMatrix& matrix, int64_t rows,
                   int64_t cols) {
  if (!is_kernel_float(matrix.dtype)) {
    return misfit(delta, std::string("holds ") + std::string(name_of(matrix.dtype)) + " in its " + part +
                             "; wanted f32, f16 or bf16");
  }
  if (matrix.rows == rows && matrix.cols == cols) return {};
  return misfit(delta, std::string("has the ") + part + " " + shape_of(matrix) + "; wanted [" +
                           std::to_string(rows) + ", " + std::to_string(cols) + "]");
}

Status check_count(const HostDelta& delta, const char* what, std::span<const float> numbers, int64_t count) {
  if (numbers.empty() || static_cast<int64_t>(numbers.size()) == count) return {};
  return misfit(delta,
                "has " + std::to_string(numbers.size()) + " " + what + "; wanted " + std::to_string(count));
}

HostMatrix columns(const HostMatrix& matrix, const Part& part) {
  HostMatrix own = matrix;
  own.data += static_cast<size_t>(part.first * matrix.col_stride) * size_of(matrix.dtype);
  own.cols = part.count;
  return own;
}

}  // namespace

Status check_delta(const HostDelta& delta, const BoundMatrix& matrix) {
  if (matrix.role == WeightRole::embedding) {
    return misfit(delta, "cannot be computed beside the model, which looks its rows up; merge the adapter");
  }
  if (delta.rank < 1) return misfit(delta, "has rank " + std::to_string(delta.rank) + "; wanted at least 1");
  if (!std::isfinite(delta.scale)) return misfit(delta, "has a scale that is no number");
  if (delta.down.data != nullptr) FULMAR_TRY(check_shape(delta, "A", delta.down, delta.rank, matrix.in));
  if (delta.up.data != nullptr) FULMAR_TRY(check_shape(delta, "B", delta.up, matrix.out, delta.rank));
  if (delta.up.data == nullptr && delta.blocks.empty()) return misfit(delta, "has no B");
  FULMAR_TRY(check_count(delta, "magnitudes of outputs", delta.gain, matrix.out));
  FULMAR_TRY(check_count(delta, "magnitudes of inputs", delta.input_gain, matrix.in));
  return check_count(delta, "numbers in its blocks", delta.blocks, matrix.in * delta.rank);
}

size_t DeviceAdapter::bytes() const {
  size_t sum = 0;
  for (const Buffer& buffer : memory_) sum += buffer.bytes();
  return sum;
}

Status DeviceAdapter::index(Ops& ops) {
  FULMAR_ASSIGN(deltas_.tables[&ops], ops.index_deltas(deltas_));
  return {};
}

Result<Weight> DeviceAdapter::copy(const HostMatrix& matrix, Ops& ops) {
  const size_t element = size_of(matrix.dtype);
  std::vector<std::byte> packed(static_cast<size_t>(matrix.rows * matrix.cols) * element);
  std::byte* to = packed.data();
  for (int64_t i = 0; i < matrix.rows; i++) {
    for (int64_t j = 0; j < matrix.cols; j++, to += element) {
      const auto from = static_cast<size_t>(i * matrix.row_stride + j * matrix.col_stride);
      std::memcpy(to, matrix.data + from * element, element);
    }
  }
  FULMAR_ASSIGN(Buffer buffer, ops.allocate(packed.size()));
  ops.write(buffer.data(), packed.data(), packed.size());
  const Weight weight{matrix.dtype, matrix.rows, matrix.cols, buffer.data()};
  memory_.push_back(std::move(buffer));
  return weight;
}

Result<Tensor> DeviceAdapter::copy(std::span<const float> numbers, int64_t cols, const Part& part, Ops& ops) {
  if (numbers.empty()) return Tensor{};
  const auto own =
      numbers.subspan(static_cast<size_t>(part.first * cols), static_cast<size_t>(part.count * cols));
  FULMAR_ASSIGN(Buffer buffer, ops.allocate(own.size_bytes()));
  ops.write(buffer.data(), own.data(), own.size_bytes());
  const Tensor copied = buffer.matrix(DType::f32, own.size() / static_cast<size_t>(cols), cols);
  memory_.push_back(std::move(buffer));
  return copied;
}

Status DeviceAdapter::add(const HostDelta& delta, const BoundMatrix& matrix, const Slice& slice, Ops& ops) {
  FULMAR_TRY(check_delta(delta, matrix));
  if (deltas_.of.contains(matrix.weight.data))
    return {};  // ranks of one device share a matrix that is not cut
  Part outputs{0, matrix.out}, inputs{0, matrix.in};
  if (matrix.cut == Cut::outputs) outputs = part_of(slice, matrix.out);
  if (matrix.cut == Cut::vocabulary) outputs = vocabulary_part(slice, matrix.out);
  if (matrix.cut == Cut::inputs) inputs = part_of(slice, matrix.in);
  if (!delta.blocks.empty() && (inputs.first % delta.rank != 0 || inputs.count % delta.rank != 0)) {
    return misfit(delta, "has blocks of " + std::to_string(delta.rank) + " inputs; a device has " +
                             std::to_string(inputs.count) + ", which is no multiple of that");
  }
  MatrixDelta own{.rank = delta.rank,
                  .first_input = inputs.first,
                  .first_output = outputs.first,
                  .scale = delta.scale,
                  .of_wanted = matrix.role == WeightRole::head};
  if (delta.down.data != nullptr) {
    FULMAR_ASSIGN(own.down, copy(columns(delta.down, inputs), ops));
  }
  if (delta.up.data != nullptr) {
    FULMAR_ASSIGN(own.up, copy(rows_of(delta.up, outputs), ops));
  }
  FULMAR_ASSIGN(own.gain, copy(delta.gain, 1, outputs, ops));
  FULMAR_ASSIGN(own.input_gain, copy(delta.input_gain, 1, inputs, ops));
  FULMAR_ASSIGN(own.blocks, copy(delta.blocks, delta.rank, inputs, ops));
  deltas_.of.emplace(matrix.weight.data, own);
  return {};
}

}  // namespace fulmar
