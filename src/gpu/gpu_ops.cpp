// Facts, memory, weights, steps, slots and primitives of the CUDA backend: each primitive launches its
// kernel.
#include "gpu/gpu_ops.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "gpu/ceilings.h"
#include "gpu/device/peer_channel.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/layout/pack.h"
#include "gpu/gemm/sparse.h"
#include "gpu/gpu_draws.h"
#include "gpu/math/head_size.h"
#include "gpu/stages/ffn_packed.h"
#include "gpu/stages/ffn_rows.h"
#include "gpu/stages/heads.h"
#include "gpu/stages/lone_row.h"
#include "gpu/stages/rows.h"

namespace fulmar {

namespace {

constexpr size_t kMemoryMargin = size_t{256} << 20;  // for the driver and for modules that are loaded lazily
// bytes; above, staging through our pinned buffers beats the driver's own
constexpr size_t kLargeCopy = size_t{1} << 20;

}  // namespace

GpuOps::~GpuOps() {
  gpu::ignore_failure(cudaSetDevice(facts_.index));
  if (queue_.stream != nullptr) gpu::ignore_failure(cudaStreamSynchronize(queue_.stream));
  for (const InputStage& stage : input_stages_) {
    if (stage.free != nullptr) gpu::ignore_failure(cudaEventDestroy(stage.free));
  }
  gemm_.reset();
  if (queue_.stream != nullptr) gpu::ignore_failure(cudaStreamDestroy(queue_.stream));
}

Status GpuOps::open() {
  FULMAR_GPU_TRY(cudaStreamCreateWithFlags(&queue_.stream, cudaStreamNonBlocking));
  queue_.overlap = gpu::kHopperCode && facts_.architecture >= 90;
  const auto workspace = [this](size_t bytes) {
    return Scratch(*this).take(1, static_cast<int64_t>(bytes), DType::u8).data;
  };
  FULMAR_ASSIGN(gemm_,
                gpu::GemmDispatcher::open(facts_, queue_,
                                          {options_.plain_products, options_.panels, options_.deterministic,
                                           options_.float8_inputs, options_.gemm_choices},
                                          workspace));
  ways_ = gpu::island_ways({facts_.matrix_units, gemm_->has_wgmma(), options_.deterministic});
  FULMAR_TRY(upload_.open());
  constexpr size_t kInputBytes = static_cast<size_t>(gpu::most_numbers(gpu::kMostRows)) * sizeof(int32_t);
  FULMAR_ASSIGN(numbers_, gpu::allocate_device(kInputBytes));
  for (InputStage& stage : input_stages_) {
    FULMAR_GPU_TRY(cudaEventCreateWithFlags(&stage.free, cudaEventDisableTiming));
    FULMAR_ASSIGN(stage.pinned, gpu::allocate_pinned(kInputBytes));
  }
  return {};
}

size_t GpuOps::memory_free() const {
  use_device();
  size_t free = 0, total = 0;
  FULMAR_GPU(cudaMemGetInfo(&free, &total));
  return free > kMemoryMargin ? free - kMemoryMargin : 0;
}

Result<Ceilings> GpuOps::measure_ceilings() {
  use_device();
  return gpu::measure_ceilings(queue_, gemm_->library(), facts_.multiprocessors, memory_free(),
                               options_.float8_inputs);
}

Result<Buffer> GpuOps::allocate(size_t bytes) {
  use_device();
  FULMAR_ASSIGN(Buffer own, gpu::allocate_device(bytes));
  ++*memory_;
  // The release function owns the device's buffer and bumps the counter that invalidates captured graphs.
  auto held = std::make_shared<Buffer>(std::move(own));
  void* data = held->data();
  return Buffer(data, bytes, [held, memory = memory_](void*) mutable {
    ++*memory;
    held.reset();
  });
}

void GpuOps::write(void* target, const void* host, size_t bytes) {
  use_device();
  if (bytes >= kLargeCopy) return upload_.send(queue_, target, host, bytes);
  FULMAR_GPU(cudaMemcpyAsync(target, host, bytes, cudaMemcpyHostToDevice, queue_.stream));
  synchronise();
}

void GpuOps::read(void* host, const void* source, size_t bytes) {
  use_device();
  if (bytes >= kLargeCopy) return upload_.fetch(queue_, host, source, bytes);
  FULMAR_GPU(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, queue_.stream));
  synchronise();
}

void GpuOps::synchronise() {
  if (queue_.stream != nullptr) FULMAR_GPU(cudaStreamSynchronize(queue_.stream));
}

// Returns the type of a matrix on the device. Embedding rows are gathered, not multiplied: they stay precise.
DType GpuOps::imported_dtype(DType stored, WeightRole role) const {
  if (role != WeightRole::embedding || is_block(stored)) return options_.activation;
  return is_kernel_float(stored) ? stored : DType::f32;
}

size_t GpuOps::import_bytes(const HostMatrix& matrix, WeightRole role) const {
  if (stays_quantised(matrix, role)) {
    const int64_t scales = matrix.scales != nullptr ? matrix.rows * (matrix.cols / matrix.group) : 0;
    return code_bytes(codes_of(matrix, role)) + static_cast<size_t>(scales) * sizeof(float);
  }
  return bytes_for(imported_dtype(matrix.dtype, role), matrix.rows * matrix.cols);
}

// Returns the scratch of the default islands, plus the larger of the fused feed-forward's partial sums and
// the sampler's copies of the logits.
size_t GpuOps::workspace_bytes(const StepShape& shape) const {
  const int64_t drawn = std::min(shape.wanted, gpu::Sampler::kMostAtOnce);
  const int multiprocessors = facts_.multiprocessors;
  const size_t parts =
      std::max(gpu::most_ffn_rows_bytes(shape.rows, shape.n_embd, shape.n_ffn, multiprocessors),
               gpu::most_ffn_packed_bytes(shape.rows, shape.n_embd, shape.n_ffn, multiprocessors));
  return std::max(Ops::workspace_bytes(shape) + parts,
                  static_cast<size_t>(drawn * shape.vocab) * sizeof(float));
}

// Returns whether a matrix stays quantised: if it is multiplied; not embeddings and small low-rank factors.
bool GpuOps::stays_quantised(const HostMatrix& matrix, WeightRole role) {
  const bool codes = is_block(matrix.dtype) || matrix.scales != nullptr;
  const bool multiplied = role != WeightRole::embedding && role != WeightRole::low_rank;
  return codes && multiplied && matrix.row_major();
}

Weight GpuOps::codes_of(const HostMatrix& matrix, WeightRole role) const {
  Weight weight{matrix.dtype, matrix.rows, matrix.cols};
  weight.group = matrix.scales != nullptr ? matrix.group : 0;
  // The head's inputs are not rounded to FP8: its products are the logits.
  const bool float8 = options_.float8_inputs && role != WeightRole::head &&
                      gpu::suits_float8(weight.dtype, weight.out, weight.in, weight.group);
  weight.layout =
      float8 ? WeightLayout::float8_rows
             : gpu::code_layout(weight.dtype, weight.out, weight.in, weight.group, skips_zeros(role));
  return weight;
}

size_t GpuOps::code_bytes(const Weight& weight) {
  if (!gpu::is_packed(weight)) return weight.bytes();
  return gpu::packed_parts(weight.dtype, weight.out, weight.in, weight.by_input()).bytes;
}

Result<Weight> GpuOps::import_codes(const HostMatrix& matrix, WeightRole role) {
  FULMAR_TRY(gemm_->reserve_decoded());
  Weight weight = codes_of(matrix, role);
  FULMAR_ASSIGN(void* codes, arena_.take(code_bytes(weight)));
  weight.data = codes;
  if (gpu::is_packed(weight)) {
    upload_.rows(queue_, matrix.data, bytes_for(weight.dtype, weight.in), weight.out, gpu::kPackedOuts,
                 [&](const void* raw, int64_t first, int64_t rows) {
                   gpu::pack_rows(queue_, raw, first, rows, weight);
                 });
  } else {
    write(codes, matrix.data, weight.bytes());
  }
  if (matrix.scales == nullptr) return weight;
  const int64_t groups = matrix.cols / matrix.group;
  FULMAR_ASSIGN(void* scales, arena_.take(static_cast<size_t>(matrix.rows * groups) * sizeof(float)));
  weight.scales = static_cast<const float*>(scales);
  const HostMatrix host{
      reinterpret_cast<const std::byte*>(matrix.scales), DType::f32, matrix.rows, groups, groups, 1};
  upload_.matrix(queue_, host, scales, DType::f32, weight.by_input());
  return weight;
}

Result<Weight> GpuOps::import_weight(const HostMatrix& matrix, WeightRole role) {
  use_device();
  if (stays_quantised(matrix, role)) return import_codes(matrix, role);
  const DType target = imported_dtype(matrix.dtype, role);
  Weight weight{target, matrix.rows, matrix.cols};
  weight.layout = WeightLayout::columns;
  if (!skips_zeros(role) || !gpu::suits_sparse(1, weight)) weight.layout = WeightLayout::rows;
  FULMAR_ASSIGN(void* data, arena_.take(weight.bytes()));
  weight.data = data;
  upload_.matrix(queue_, matrix, data, target, weight.by_input());
  return weight;
}

Result<Tensor> GpuOps::import_vector(std::span<const float> values, int64_t rows, int64_t cols) {
  FULMAR_CHECK(static_cast<int64_t>(values.size()) == rows * cols);
  use_device();
  FULMAR_ASSIGN(void* data, arena_.take(values.size_bytes()));
  write(data, values.data(), values.size_bytes());
  return Tensor{data, DType::f32, rows, cols, cols};
}

bool GpuOps::replays(int64_t head_size) const { return head_size == gpu::kHeadSize; }

// Begins the rings of a step. Chunked kernels and the batch-1 kernel do not support them. What is enqueued
// here precedes the copy of the step's index arrays, and no later kernel overtakes that copy.
bool GpuOps::begin_rings(const StepInput& input, const State& state) {
  ring_.clear();
  if (!state.has_rings()) return false;
  const bool lone = !ways_.fixed_order && input.token.size() == 1;
  for (size_t s = 0; s < input.slot.size(); s++) {
    const bool several = input.start[s + 1] - input.start[s] > 1;
    const bool revocable = several && !input.revocable.empty() && input.revocable[s] != 0;
    RingCursor& cursor = state.cursors[input.slot[s]];
    if (!lone && (!several || revocable)) continue;
    if (cursor.held > 0)
      gpu::replay_ring(device_.without_pdl(), state, input.slot[s], state.slot(input.slot[s]));
    cursor = {};
  }
  return !lone && ring_steps(input, state, ring_);
}

Batch GpuOps::begin_step(const StepInput& input, const State& state) {
  use_device();
  const bool revocable = begin_rings(input, state);
  gpu::pack_step(input, ring_, static_cast<int32_t>(state.slots - 1), gpu::kChunk, plan_);
  const size_t bytes = plan_.numbers.size() * sizeof(int32_t);
  FULMAR_CHECK(bytes <= numbers_.bytes());
  InputStage& stage = input_stages_[next_input_];
  next_input_ = (next_input_ + 1) % kInputStages;
  FULMAR_GPU(cudaEventSynchronize(stage.free));
  std::copy(plan_.numbers.begin(), plan_.numbers.end(), static_cast<int32_t*>(stage.pinned.data()));
  FULMAR_GPU(
      cudaMemcpyAsync(numbers_.data(), stage.pinned.data(), bytes, cudaMemcpyHostToDevice, queue_.stream));
  if (deltas_.begin(input)) send_deltas(stage);
  FULMAR_GPU(cudaEventRecord(stage.free, queue_.stream));
  if (input.drawn != nullptr) {
    auto* const numbers = static_cast<int32_t*>(numbers_.data());
    gpu::feed_drawn(device_.without_pdl(), static_cast<const gpu::SampleResult*>(input.drawn), plan_.rows,
                    static_cast<int32_t>(state.slots - 1), numbers + plan_.token, numbers + plan_.slot);
  }
  state_base_ = state.base;
  const auto at = [&](size_t offset) { return static_cast<const int32_t*>(numbers_.data()) + offset; };
  chunks_ = {plan_.chunks, at(plan_.chunk_row), at(plan_.chunk_rows), at(plan_.chunk_begin)};
  const auto* ring = ring_.empty() ? nullptr : reinterpret_cast<const RingStep*>(at(plan_.ring));
  return {plan_.rows,      plan_.sequences, plan_.wanted,          plan_.longest,        at(plan_.token),
          at(plan_.start), at(plan_.slot),  at(plan_.sequence_of), at(plan_.wanted_row), ring,
          revocable};
}

void GpuOps::send_deltas(InputStage& stage) {
  const std::vector<gpu::DeltaRow>& rows = deltas_.rows();
  const size_t bytes = rows.size() * sizeof(gpu::DeltaRow);
  const auto grow = [&](Buffer& buffer, auto make) {
    if (buffer.bytes() >= bytes) return;
    Result<Buffer> larger = make(std::max(bytes, 2 * buffer.bytes()));
    if (!larger.ok()) throw DeviceFailure(larger.error().text);
    synchronise();  // an earlier step may still read the one before
    buffer = std::move(larger).value();
  };
  grow(stage.deltas, gpu::allocate_pinned);
  grow(delta_rows_, gpu::allocate_device);
  std::copy(rows.begin(), rows.end(), static_cast<gpu::DeltaRow*>(stage.deltas.data()));
  FULMAR_GPU(
      cudaMemcpyAsync(delta_rows_.data(), stage.deltas.data(), bytes, cudaMemcpyHostToDevice, queue_.stream));
  deltas_.placed(static_cast<const gpu::DeltaRow*>(delta_rows_.data()));
}

Result<Buffer> GpuOps::index_deltas(const DeltaSet& deltas) {
  FULMAR_ASSIGN(const std::vector<gpu::DeviceDelta> table, deltas_.table_of(deltas));
  const size_t bytes = table.size() * sizeof(gpu::DeviceDelta);
  FULMAR_ASSIGN(Buffer buffer, allocate(bytes));
  write(buffer.data(), table.data(), bytes);
  return buffer;
}

void GpuOps::run_step(const Batch& batch, const std::function<void()>& body) {
  if (!deltas_.empty()) return body();
  if (!options_.capture || !gpu::is_captured(batch.rows, batch.sequences, batch.wanted)) return body();
  graphs_.run(
      queue_.stream,
      {batch.rows, batch.sequences, batch.wanted, batch.revocable, batch.ring != nullptr, state_base_},
      *memory_, body);
}

void GpuOps::zero_slot(const State& state, int64_t slot) {
  if (RingCursor* cursor = cursor_of(state, slot)) *cursor = {};
  use_device();
  FULMAR_GPU(cudaMemsetAsync(state.slot(slot), 0, state.layout.slot_bytes(), queue_.stream));
}

void GpuOps::copy_slot(const State& state, int64_t from, int64_t to) {
  RingCursor *source = cursor_of(state, from), *target = cursor_of(state, to);
  if (from == to) return;
  use_device();
  const bool holds = source != nullptr && source->held > 0;
  if (target != nullptr) *target = *source;
  FULMAR_GPU(cudaMemcpyAsync(state.slot(to), state.slot(from),
                             holds ? state.slot_stride() : state.layout.slot_bytes(),
                             cudaMemcpyDeviceToDevice, queue_.stream));
}

const std::byte* GpuOps::replayed(const State& state, int64_t slot, Scratch& scratch) {
  use_device();
  const size_t bytes = state.layout.slot_bytes();
  auto* const copy = static_cast<std::byte*>(scratch.take(1, static_cast<int64_t>(bytes), DType::u8).data);
  FULMAR_GPU(cudaMemcpyAsync(copy, state.slot(slot), bytes, cudaMemcpyDeviceToDevice, queue_.stream));
  gpu::replay_ring(device_.without_pdl(), state, slot, copy);
  return copy;
}

void GpuOps::restore_fields(const State& state, int64_t slot, int64_t ring_row) {
  use_device();
  gpu::restore_fields(device_.without_pdl(), state, slot, ring_row);
}

Result<std::unique_ptr<Channel>> GpuOps::channel_from(Ops& sender, size_t bytes) {
  const auto* other = dynamic_cast<const GpuOps*>(&sender);
  if (other == nullptr) return std::unique_ptr<Channel>();
  return gpu::open_peer_channel({other->facts_.index, other->queue_.stream}, {facts_.index, queue_.stream},
                                bytes);
}

std::vector<gpu::PeerEnd> GpuOps::peer_ends(std::span<Ops* const> group) {
  std::vector<gpu::PeerEnd> ends;
  for (Ops* ops : group) {
    const auto* one = dynamic_cast<const GpuOps*>(ops);
    if (one == nullptr) return {};
    ends.push_back({one->facts_.index, one->queue_, one->name()});
  }
  return ends;
}

Result<std::vector<std::unique_ptr<Collective>>> GpuOps::collectives_of(std::span<Ops* const> group,
                                                                        const CollectiveOptions& options) {
  // In deterministic mode one algorithm for all sizes, so that a row's sum has the same bits at any batch
  // size.
  const auto way = ways_.fixed_order ? std::optional(SumWay::one_shot) : std::nullopt;
  return gpu::open_peer_collectives(peer_ends(group), options, way);
}

size_t GpuOps::collective_bytes(int64_t size, const CollectiveOptions& options) const {
  return gpu::peer_collective_bytes(size, options);
}

void GpuOps::embed(const Batch& batch, const Embedding& embedding, Tensor out) {
  gpu::embed(queue_, batch, embedding, out);
}

void GpuOps::add(Tensor x, Tensor pending) { gpu::add(queue_, x, pending); }

void GpuOps::norm(Tensor x, const Norm& norm, Tensor out) { gpu::add_norm(queue_, x, {}, norm, out); }

void GpuOps::shift(const Batch& batch, Tensor z, StateField carry, Tensor out) {
  gpu::shift(queue_, batch, z, carry, out);
  if (batch.revocable) gpu::keep_rows(queue_, batch, z, carry);
}

void GpuOps::lerp(Tensor z, Tensor other, Tensor mix, Tensor out) { gpu::lerp(queue_, z, other, mix, out); }

void GpuOps::lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) {
  gpu::lerp_shifted(queue_, z, other, mix, delta, out);
}

void GpuOps::linear(Tensor in, const Weight& weight, Tensor out) {
  gemm_->run(queue_, {in, weight, out});
  if (deltas_.empty()) return;
  const int number = deltas_.number_of(weight);
  if (number < 0) return;
  const gpu::DeltaRowList list = deltas_.list(number);
  Scratch scratch(*this);
  gpu::add_deltas(queue_, list, number, in, out, scratch.take(list.count, list.most_rank, DType::f32));
}

void GpuOps::activate(Tensor x, Tensor bias, Activation act) { gpu::activate(queue_, x, bias, act); }

void GpuOps::add_bias(Tensor x, Tensor bias) { gpu::add_bias(queue_, x, bias); }

void GpuOps::multiply(Tensor a, Tensor b, Tensor out) { gpu::multiply(queue_, a, b, out); }

void GpuOps::head_norm(int64_t n_head, const Norm& ln_x, Tensor y) {
  gpu::head_norm(queue_, n_head, ln_x, y);
}

void GpuOps::gather_wanted(const Batch& batch, Tensor x, Tensor out) {
  gpu::gather_rows(queue_, x, batch.wanted_row, out);
}

void GpuOps::read_out(const Batch& batch, const Head& head, Tensor x, Addend pending, Tensor hidden,
                      Tensor logits) {
  if (batch.rows != 1 || !pending.empty() || !ways_.lone_row || !deltas_.empty() ||
      !gpu::GemmDispatcher::suits_lone_row(head.matrix)) {
    return Ops::read_out(batch, head, x, pending, hidden, logits);
  }
  Scratch scratch(*this);
  const gpu::RowMix normed{nullptr, {hidden, scratch.take(1, x.cols)}};
  gpu::enter_row(queue_, batch, head.ln_out, x, {}, {&normed, 1});
  const gpu::Gemv product[] = {{normed.out, head.matrix, {logits, {}}}};
  gemm_->run_row(product);
}

bool GpuOps::begin_draws(Tensor logits, std::span<const SampleRow> rows) {
  FULMAR_CHECK(logits.dtype == DType::f32);
  use_device();
  Scratch scratch(*this);
  const auto at_once = std::min(static_cast<int64_t>(rows.size()), gpu::Sampler::kMostAtOnce);
  return sampler_.begin(queue_, logits, rows, scratch.take(at_once, logits.cols, DType::f32));
}

void GpuOps::sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) {
  FULMAR_CHECK(rows.size() == out.size());
  if (!begin_draws(logits, rows)) return Ops::sample(logits, rows, out);
  sampler_.finish(out);
  for (const size_t i : sampler_.undrawn()) Ops::sample(logits, rows.subspan(i, 1), out.subspan(i, 1));
}

bool GpuOps::begin_sample(Tensor logits, std::span<const SampleRow> rows) {
  return std::all_of(rows.begin(), rows.end(), gpu::Sampler::draws) && begin_draws(logits, rows);
}

void GpuOps::finish_sample(std::span<SampledToken> out) {
  use_device();
  sampler_.finish(out);
}

Status GpuOps::check_layer(int64_t width) {
  use_device();
  if (width % 8 != 0) {
    return Error{ErrorKind::unsupported,
                 "the model is " + std::to_string(width) + " wide; the GPU wants a multiple of 8"};
  }
  if (upload_.overflowed(queue_)) {
    return Error{ErrorKind::unsupported,
                 "a weight lies beyond 65504, the largest number of f16; wanted --activation bf16"};
  }
  return {};
}

Result<std::unique_ptr<SharedDraws>> GpuOps::draws_of(std::span<Ops* const> group, int64_t vocab,
                                                      std::chrono::milliseconds timeout) {
  return GpuDraws::open(group, vocab, timeout);
}

}  // namespace fulmar
