// Facts, memory, weights, steps and slots of the CPU backend.
#include "cpu/cpu_ops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/read_file.h"
#include "cpu/cpu_backend.h"
#include "cpu/deltas.h"
#include "cpu/interleaved.h"
#include "cpu/linear_amx.h"
#include "cpu/linear_sparse.h"
#include "cpu/row_math.h"
#include "cpu/transposed.h"
#include "tensor/quantise.h"

namespace fulmar {

namespace {

constexpr size_t kAlignment = 64;

int usable_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Calls copy(from, to) for each element; square tiles keep both sides in cache when the source is transposed.
template <class Copy>
void for_elements(const HostMatrix& from, size_t element_out, std::byte* to, Copy copy) {
  constexpr int64_t kTile = 32;
  const size_t element_in = size_of(from.dtype);
  for (int64_t i0 = 0; i0 < from.rows; i0 += kTile) {
    for (int64_t j0 = 0; j0 < from.cols; j0 += kTile) {
      for (int64_t i = i0; i < std::min(from.rows, i0 + kTile); i++) {
        for (int64_t j = j0; j < std::min(from.cols, j0 + kTile); j++) {
          const auto index = static_cast<size_t>(i * from.row_stride + j * from.col_stride);
          copy(from.data + index * element_in, to + static_cast<size_t>(i * from.cols + j) * element_out);
        }
      }
    }
  }
}

// Returns whether products and the embedding read the type as stored.
bool kernels_read(DType dtype) { return is_kernel_float(dtype) || is_block(dtype) || is_scaled(dtype); }

DType kept_dtype(DType stored) { return kernels_read(stored) ? stored : DType::f32; }

void copy_matrix(const HostMatrix& from, std::byte* to) {
  if (!kernels_read(from.dtype)) {
    rows_as_f32(from, 0, {reinterpret_cast<float*>(to), static_cast<size_t>(from.rows * from.cols)});
  } else if (size_of(from.dtype) == 2) {
    for_elements(from, 2, to, [](const std::byte* in, std::byte* out) { std::memcpy(out, in, 2); });
  } else {
    for_elements(from, 4, to, [](const std::byte* in, std::byte* out) { std::memcpy(out, in, 4); });
  }
}

// Returns the number of digits: seven bits each, and a sign.
CodedActivations digits_of(int activation_bits) {
  FULMAR_CHECK(activation_bits == 22 || activation_bits == 15 || activation_bits == 8);
  return static_cast<CodedActivations>((activation_bits - 1) / 7);
}

// Returns whether a matrix is interleaved for products of codes; an embedding's rows are gathered as stored.
bool is_multiplied_from_codes(const HostMatrix& matrix, WeightRole role) {
  return role != WeightRole::embedding && multiplies_codes(matrix.dtype) && can_interleave(matrix);
}

// Returns whether a matrix is transposed because most of its inputs are zeros.
bool skips_zeros(const HostMatrix& matrix, WeightRole role) {
  return role == WeightRole::ffn_value && multiplies_strips(matrix.dtype) && can_transpose(matrix);
}

}  // namespace

CpuOps::CpuOps(const CpuOptions& options)
    : pool_(options.threads > 0 ? options.threads : usable_cores()),
      state_writes_(options.state_writes),
      mode_{options.deterministic ? LinearOrder::fixed : LinearOrder::quickest,
            digits_of(options.activation_bits), has_vnni(), has_amx()} {}

std::string CpuOps::name() const {
  return std::string("cpu (") + cpu::instruction_set() + ", " + std::to_string(pool_.size()) + " threads)";
}

size_t CpuOps::memory_free() const {
  constexpr size_t kMostBytes = size_t{1} << 16;
  std::istringstream meminfo(read_if_there("/proc/meminfo", kMostBytes));
  for (std::string key, rest; meminfo >> key && std::getline(meminfo, rest);) {
    if (key == "MemAvailable:") return static_cast<size_t>(std::strtoull(rest.c_str(), nullptr, 10)) * 1024;
  }
  return std::numeric_limits<size_t>::max();
}

Result<Buffer> CpuOps::allocate(size_t bytes) {
  const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = padded >= bytes ? std::aligned_alloc(kAlignment, std::max(padded, kAlignment)) : nullptr;
  if (data == nullptr) {
    return Error{ErrorKind::resource, "cannot allocate " + std::to_string(bytes) + " bytes of memory"};
  }
  return Buffer(data, bytes, [](void* owned) { std::free(owned); });
}

void CpuOps::write(void* target, const void* host, size_t bytes) { std::memcpy(target, host, bytes); }

void CpuOps::read(void* host, const void* source, size_t bytes) { std::memcpy(host, source, bytes); }

size_t CpuOps::import_bytes(const HostMatrix& matrix, WeightRole role) const {
  if (skips_zeros(matrix, role)) {
    return transposed_bytes(matrix) + static_cast<size_t>(transposed_scales(matrix)) * sizeof(float);
  }
  if (is_multiplied_from_codes(matrix, role)) {
    return interleaved_bytes(matrix) + static_cast<size_t>(interleaved_scales(matrix)) * sizeof(float);
  }
  if (kernels_read(matrix.dtype) && matrix.row_major()) return 0;
  return bytes_for(kept_dtype(matrix.dtype), matrix.rows * matrix.cols);
}

Result<Weight> CpuOps::import_weight(const HostMatrix& matrix, WeightRole role) {
  Weight weight{kept_dtype(matrix.dtype), matrix.rows,   matrix.cols, matrix.data,
                WeightLayout::rows,       matrix.scales, matrix.group};
  const size_t bytes = import_bytes(matrix, role);
  if (bytes == 0) return weight;
  FULMAR_ASSIGN(std::byte* const to, weights_.take(bytes));
  if (skips_zeros(matrix, role)) {
    auto* const scales = reinterpret_cast<float*>(to + transposed_bytes(matrix));
    pool_.parallel_for(strips_of(matrix.rows), 1, [&](int64_t first, int64_t last) {
      transpose_strips(matrix, first, last, to, scales);
    });
    weight.layout = WeightLayout::strips;
    if (matrix.scales != nullptr) weight.scales = scales;
  } else if (is_multiplied_from_codes(matrix, role)) {
    auto* const scales = reinterpret_cast<float*>(to + interleaved_bytes(matrix));
    interleave(matrix, to, scales);
    weight.layout = WeightLayout::tiles;
    if (matrix.scales != nullptr) weight.scales = scales;
  } else {
    copy_matrix(matrix, to);
  }
  weight.data = to;
  return weight;
}

Result<Tensor> CpuOps::import_vector(std::span<const float> values, int64_t rows, int64_t cols) {
  FULMAR_CHECK(static_cast<int64_t>(values.size()) == rows * cols);
  FULMAR_ASSIGN(Buffer owned, allocate(values.size_bytes()));
  std::memcpy(owned.data(), values.data(), values.size_bytes());
  vectors_.push_back(std::move(owned));
  return vectors_.back().matrix(DType::f32, rows, cols);
}

void CpuOps::feed_drawn(const Drawn& drawn, const State& state) {
  for (size_t s = 0; s < token_.size(); s++) {
    if (token_[s] >= 0) continue;
    const SampledToken& id = drawn[static_cast<size_t>(-1 - token_[s])];
    token_[s] = id.token;
    if (id.stops) slot_[s] = static_cast<int32_t>(state.slots - 1);
  }
}

Batch CpuOps::begin_step(const StepInput& input, const State& state) {
  const auto keep = [](std::span<const int32_t> from, std::vector<int32_t>& to) {
    to.assign(from.begin(), from.end());
    return to.data();
  };
  Batch batch;
  batch.rows = static_cast<int64_t>(input.token.size());
  batch.sequences = static_cast<int64_t>(input.slot.size());
  batch.wanted = static_cast<int64_t>(input.wanted.size());
  batch.token = keep(input.token, token_);
  batch.start = keep(input.start, start_);
  batch.slot = keep(input.slot, slot_);
  batch.wanted_row = keep(input.wanted, wanted_);
  if (input.drawn != nullptr) feed_drawn(*static_cast<const Drawn*>(input.drawn), state);
  deltas_ = deltas_of(input);
  sequence_of_.resize(input.token.size());
  for (int32_t s = 0; s < batch.sequences; s++) {
    std::fill(sequence_of_.begin() + start_[s], sequence_of_.begin() + start_[s + 1], s);
    batch.longest = std::max<int64_t>(batch.longest, start_[s + 1] - start_[s]);
  }
  batch.sequence_of = sequence_of_.data();
  if (state.has_rings()) {
    batch.revocable = ring_steps(input, state, ring_);
    batch.ring = ring_.data();
  }
  return batch;
}

void CpuOps::add_deltas(std::span<const LinearTask> tasks) {
  const std::vector<cpu::DeltaProduct> changes = cpu::delta_products(tasks, deltas_);
  if (changes.empty()) return;
  Scratch scratch(*this);
  cpu::add_deltas(pool_, changes, mode_,
                  [&](int64_t rows, int64_t cols) { return scratch.take(rows, cols); });
}

void CpuOps::zero_slot(const State& state, int64_t slot) {
  if (RingCursor* cursor = cursor_of(state, slot)) *cursor = {};
  std::memset(state.slot(slot), 0, state.layout.slot_bytes());
}

void CpuOps::copy_slot(const State& state, int64_t from, int64_t to) {
  RingCursor *source = cursor_of(state, from), *target = cursor_of(state, to);
  if (from == to) return;
  if (target != nullptr) *target = *source;
  std::memcpy(state.slot(to), state.slot(from), state.slot_stride());
}

const std::byte* CpuOps::replayed(const State& state, int64_t slot, Scratch& scratch) {
  const auto bytes = static_cast<int64_t>(state.layout.slot_bytes());
  auto* const copy = static_cast<std::byte*>(scratch.take(1, bytes, DType::u8).data);
  std::memcpy(copy, state.slot(slot), state.layout.slot_bytes());
  const size_t field = state.layout.fields.replayed();
  for (int64_t layer = 0; layer < state.layout.n_layer; layer++) {
    cpu::replay(pool_, state, layer, slot,
                reinterpret_cast<float*>(copy + state.layout.offset(layer, field)));
  }
  return copy;
}

void CpuOps::restore_fields(const State& state, int64_t slot, int64_t ring_row) {
  const StateLayout& layout = state.layout;
  for (int64_t layer = 0; layer < layout.n_layer; layer++) {
    for (size_t i = 0; i < layout.fields.size(); i++) {
      if (layout.fields[i].roll_back != FieldSpec::RollBack::restored) continue;
      const StateField field = state.field(layer, i);
      FULMAR_CHECK(field.ring.dtype == field.dtype);  // activations are f32
      std::memcpy(field.at<std::byte>(slot), field.ring.row(slot, 0, ring_row),
                  layout.data_bytes(layout.fields[i]));
    }
  }
}

void CpuOps::sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) {
  FULMAR_CHECK(rows.size() == out.size());
  pool_.parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(logits.cols));
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); i++) {
      std::memcpy(row.data(), logits.row<float>(rows[i].logits_row), row.size() * sizeof(float));
      out[i] = sample_row(row, rows[i]);
    }
  });
}

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) { return std::make_unique<CpuOps>(options); }

}  // namespace fulmar
