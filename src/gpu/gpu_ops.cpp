// Wires the kernels into Ops: one method per primitive, the islands that have kernels of their own, and what
// a step needs around them (index arrays, graphs, workspace). Long because Ops has many methods.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "gpu/ceilings.h"
#include "gpu/kernels.h"
#include "gpu/linear_choice.h"
#include "gpu/linear_gemm.h"
#include "gpu/sampler.h"
#include "gpu/step_graph.h"
#include "gpu/step_input.h"
#include "gpu/upload.h"
#include "ops/device.h"

namespace fulmar {

namespace {

using gpu::Epilogue;
using gpu::Queue;

constexpr int64_t kHead = 64;                        // channels of a head that the fused islands know
constexpr size_t kMemoryMargin = size_t{256} << 20;  // for the driver and what is loaded lazily
constexpr int kLeastArchitecture = 80;

WeightKind kind_of(DType dtype) {
  return dtype == DType::f32 ? WeightKind::f32 : dtype == DType::bf16 ? WeightKind::bf16 : WeightKind::f16;
}

class GpuOps final : public Ops {
 public:
  GpuOps(gpu::DeviceFacts facts, const DeviceOptions& options)
      : facts_(std::move(facts)), options_(options) {}

  ~GpuOps() override {
    synchronise();
    for (const InputStage& stage : input_stages_) {
      if (stage.pinned != nullptr) FULMAR_GPU(cudaFreeHost(stage.pinned));
      if (stage.free != nullptr) FULMAR_GPU(cudaEventDestroy(stage.free));
    }
    for (const cudaEvent_t event : {fork_, join_[0], join_[1]}) {
      if (event != nullptr) FULMAR_GPU(cudaEventDestroy(event));
    }
    for (const Queue& queue : {queue_, side_[0], side_[1]}) {
      if (queue.stream != nullptr) FULMAR_GPU(cudaStreamDestroy(queue.stream));
    }
  }

  Status open() {
    FULMAR_GPU(cudaStreamCreateWithFlags(&queue_.stream, cudaStreamNonBlocking));
    queue_.overlap = facts_.architecture >= 90;
    FULMAR_GPU(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
    for (int i = 0; i < kSides; i++) {
      FULMAR_GPU(cudaStreamCreateWithFlags(&side_[i].stream, cudaStreamNonBlocking));
      FULMAR_GPU(cudaEventCreateWithFlags(&join_[i], cudaEventDisableTiming));
      side_[i].index = 1 + i;
    }
    FULMAR_ASSIGN(gemm_, gpu::Gemm::open());
    FULMAR_TRY(upload_.open());
    FULMAR_ASSIGN(counters_, gpu::allocate_device((kCounters + kTileCounters) * sizeof(uint32_t)));
    FULMAR_GPU(cudaMemset(counters_.data(), 0, counters_.bytes()));
    for (InputStage& stage : input_stages_) {
      FULMAR_GPU(cudaEventCreateWithFlags(&stage.free, cudaEventDisableTiming));
    }
    return grow_input(kFirstNumbers);
  }

  // ---- facts

  std::string name() const override {
    return "cuda:" + std::to_string(facts_.index) + " (" + facts_.name + ")";
  }
  DType activation_dtype() const override { return options_.activation; }
  DType wkv_dtype() const override { return options_.half_state ? DType::f16 : DType::f32; }
  bool borrows_host_weights() const override { return false; }
  size_t memory_free() const override {
    size_t free = 0, total = 0;
    FULMAR_GPU(cudaMemGetInfo(&free, &total));
    return free > kMemoryMargin ? free - kMemoryMargin : 0;
  }
  Result<Ceilings> measure_ceilings() override {
    use_device();
    return gpu::measure_ceilings(queue_, *gemm_, facts_.multiprocessors, memory_free());
  }

  // ---- memory

  Result<Buffer> allocate(size_t bytes) override {
    use_device();
    FULMAR_ASSIGN(Buffer own, gpu::allocate_device(bytes));
    ++*memory_;
    // The device's buffer moves into the release function, which also makes recorded graphs stale.
    auto held = std::make_shared<Buffer>(std::move(own));
    void* data = held->data();
    return Buffer(data, bytes, [held, memory = memory_](void*) mutable {
      ++*memory;
      held.reset();
    });
  }
  void write(void* target, const void* host, size_t bytes) override {
    FULMAR_GPU(cudaMemcpyAsync(target, host, bytes, cudaMemcpyHostToDevice, queue_.stream));
    synchronise();
  }
  void read(void* host, const void* source, size_t bytes) override {
    FULMAR_GPU(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, queue_.stream));
    synchronise();
  }
  void synchronise() override {
    if (queue_.stream != nullptr) FULMAR_GPU(cudaStreamSynchronize(queue_.stream));
  }

  // Embedding rows are gathered, not multiplied: they keep the precision they have.
  DType imported_dtype(DType stored, WeightRole role) const override {
    return role == WeightRole::embedding ? Ops::imported_dtype(stored, role) : options_.activation;
  }
  Result<Weight> import_weight(const HostMatrix& matrix, WeightRole role) override {
    Weight weight{WeightKind::f16, matrix.rows, matrix.cols, nullptr, false};
    const DType target = imported_dtype(matrix.dtype, role);
    weight.kind = kind_of(target);
    weight.transposed = true;
    weight.transposed = role == WeightRole::ffn_value && gpu::suits_value_product(1, weight);
    FULMAR_ASSIGN(void* data, arena_.take(static_cast<size_t>(matrix.rows * matrix.cols) *
                                          bytes_per_parameter(weight.kind)));
    weight.data = data;
    upload_.matrix(queue_, matrix, data, target, weight.transposed);
    return weight;
  }

  Result<Tensor> import_vector(std::span<const float> values, int64_t rows, int64_t cols) override {
    FULMAR_CHECK(static_cast<int64_t>(values.size()) == rows * cols);
    FULMAR_ASSIGN(void* data, arena_.take(values.size_bytes()));
    write(data, values.data(), values.size_bytes());
    return Tensor{data, DType::f32, rows, cols, cols};
  }

  Status finish_layer(TimeMix7& att, ChannelMix7&) override { return check_layer(att.ln1.weight.cols); }
  Status finish_layer(TimeMix6& att, ChannelMix6&) override { return check_layer(att.ln1.weight.cols); }

  // ---- steps

  Batch begin_step(const StepInput& input, const State& state) override {
    use_device();
    gpu::plan_step(input, static_cast<int32_t>(state.slots - 1), gpu::kChunk, plan_);
    if (plan_.numbers.size() > numbers_.bytes() / sizeof(int32_t)) {
      FULMAR_CHECK(grow_input(plan_.numbers.size() * 2).ok(), "index arrays of a step");
    }
    const size_t bytes = plan_.numbers.size() * sizeof(int32_t);
    InputStage& stage = input_stages_[next_input_];
    next_input_ = (next_input_ + 1) % kInputStages;
    FULMAR_GPU(cudaEventSynchronize(stage.free));
    std::copy(plan_.numbers.begin(), plan_.numbers.end(), static_cast<int32_t*>(stage.pinned));
    FULMAR_GPU(cudaMemcpyAsync(numbers_.data(), stage.pinned, bytes, cudaMemcpyHostToDevice, queue_.stream));
    FULMAR_GPU(cudaEventRecord(stage.free, queue_.stream));
    state_base_ = state.base;
    const auto at = [&](size_t offset) { return static_cast<const int32_t*>(numbers_.data()) + offset; };
    chunks_ = {plan_.chunks, at(plan_.chunk_row), at(plan_.chunk_rows), at(plan_.chunk_begin)};
    return {plan_.rows,      plan_.sequences, plan_.wanted,          plan_.longest,       at(plan_.token),
            at(plan_.start), at(plan_.slot),  at(plan_.sequence_of), at(plan_.wanted_row)};
  }

  void run_step(const Batch& batch, const std::function<void()>& body) override {
    const bool whole = batch.wanted == 0 || batch.wanted == batch.rows;
    if (!options_.capture || !batch.decode_only() || batch.rows > gpu::kMostCapturedRows || !whole)
      return body();
    graphs_.run(queue_.stream, {batch.rows, batch.wanted, state_base_}, *memory_, body);
  }

  // ---- slots

  void zero_slot(const State& state, int64_t slot) override {
    FULMAR_GPU(cudaMemsetAsync(slot_at(state, slot), 0, state.layout.slot_bytes(), queue_.stream));
  }
  void copy_slot(const State& state, int64_t from, int64_t to) override {
    if (from == to) return;
    FULMAR_GPU(cudaMemcpyAsync(slot_at(state, to), slot_at(state, from), state.layout.slot_bytes(),
                               cudaMemcpyDeviceToDevice, queue_.stream));
  }

  // ---- primitives

  void embed(const Batch& batch, const Embedding& embedding, Tensor out) override {
    gpu::embed(queue_, batch, embedding, out);
  }
  void add(Tensor x, Tensor pending) override { gpu::add(queue_, x, pending); }
  void norm(Tensor x, const Norm& norm, Tensor out) override { gpu::add_norm(queue_, x, {}, norm, out); }
  void shift(const Batch& batch, Tensor z, StateField carry, Tensor out) override {
    gpu::shift(queue_, batch, z, carry, out);
  }
  void lerp(Tensor z, Tensor other, Tensor mix, Tensor out) override {
    gpu::lerp(queue_, z, other, mix, out);
  }
  void lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) override {
    gpu::lerp_shifted(queue_, z, other, mix, delta, out);
  }
  void linear(Tensor in, const Weight& weight, Tensor out) override {
    if (gpu::suits_value_product(in.rows, weight) && out.dtype != DType::f32)
      return linear_value(in, weight, out);
    if (few_rows(in, weight)) return gpu::linear_rows(queue_, {{in, weight, out}});
    gemm_->run(queue_, in, weight, out, worth_timing(in.rows));
  }
  void activate(Tensor x, Tensor bias, Activation act) override { gpu::activate(queue_, x, bias, act); }
  void add_bias(Tensor x, Tensor bias) override { gpu::add_bias(queue_, x, bias); }
  void multiply(Tensor a, Tensor b, Tensor out) override { gpu::multiply(queue_, a, b, out); }
  void key_prepare7(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) override {
    gpu::key_prepare7(queue_, att, k, alpha, kk);
  }
  void wkv7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y) override {
    gpu::wkv7(queue_, batch, att, p, wkv, y, INT64_MAX);
  }
  void wkv6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y) override {
    gpu::wkv6(queue_, batch, att, p, wkv, y, INT64_MAX);
  }
  void head_norm(int64_t n_head, const Norm& ln_x, Tensor y) override {
    gpu::head_norm(queue_, n_head, ln_x, y);
  }
  void bonus7(const TimeMix7& att, const Projected7& p, Tensor y) override { gpu::bonus7(queue_, att, p, y); }
  void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                  Tensor scale) override {
    const int64_t rank = ffn.deep_rank;
    Scratch scratch(*this);
    const Tensor wide = scratch.take(batch.rows, z.cols, DType::f32);
    const Tensor row = scratch.take(batch.rows, z.cols);
    const Tensor matrix = scratch.take(batch.rows, rank * rank);
    const Tensor low = scratch.take(batch.rows, rank), turned = scratch.take(batch.rows, rank);
    embed(batch, embedding, wide);
    gpu::narrow(queue_, wide, row);
    linear(row, ffn.s_emb_x, matrix);
    linear(z, ffn.s1, low);
    gpu::turn_by_token(queue_, batch, ffn, matrix, low, turned);
    linear(turned, ffn.s2, scale);
    add_bias(scale, ffn.s0);
  }
  void gather_wanted(const Batch& batch, Tensor x, Tensor out) override {
    gpu::gather_rows(queue_, x, batch.wanted_row, out);
  }

  // ---- islands

  void enter7(const Batch& batch, const TimeMix7& att, Tensor x, Tensor pending, StateField att_shift,
              std::span<const Tensor, 6> mixed) override {
    gpu::Mixes mixes{6, {}, {}};
    for (int i = 0; i < 6; i++) {
      mixes.mix[i] = att.mix.row<float>(i);
      mixes.out[i] = mixed[static_cast<size_t>(i)];
    }
    Scratch scratch(*this);
    gpu::Ahead ahead;
    if (batch.rows == 1) {
      ahead = bring_ahead({&att.receptance, &att.g.second, &att.w.second, &att.a.second, &att.v.second},
                          gpu::kAheadSquare);
    }
    enter(batch, att.ln1, x, pending, att_shift, mixes, scratch, false, ahead);
  }

  void project7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
                Tensor v_first, const Projected7& p) override {
    if (att.head_size != kHead) return Ops::project7(batch, att, mixed, first_block, v_first, p);
    Scratch scratch(*this);
    const gpu::LowRows7 low = low_rows7(scratch, batch.rows, att, first_block);
    if (!suits_low_rank7(att, mixed[0], first_block)) {
      return project_by_library7(batch, att, mixed, first_block, v_first, p, low, scratch);
    }
    first_products7(att, mixed, first_block, p, low, scratch);
    gpu::low_rank_finish7(queue_, att, first_block, v_first, low, p);
  }

  void recur7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv,
              Tensor y) override {
    if (att.head_size != kHead || batch.longest <= gpu::kMostRecurrentRows)
      return wkv7(batch, att, p, wkv, y);
    if (plan_.short_sequences > 0) {
      gpu::wkv7(queue_, batch, att, p, wkv, y, gpu::kMostRecurrentRows);
    }
    Scratch scratch(*this);
    const auto bytes = static_cast<int64_t>(gpu::wkv7_chunk_workspace(chunks_.count, att.n_head));
    const Tensor workspace = scratch.take(1, bytes, DType::u8);
    // Launched early, the few blocks that walk over the chunks would crowd together where room comes up
    // first.
    Queue after = queue_;
    after.overlap = false;
    gpu::wkv7_chunk(after, batch, chunks_, att.n_head, p, wkv, y, workspace.data);
  }

  void leave7(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y,
              Tensor pending) override {
    if (att.head_size != kHead) return Ops::leave7(batch, att, p, y, pending);
    gpu::leave_heads7(queue_, att, p, y);
    linear(y, att.output, pending);
  }

  void attend7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y,
               Tensor pending) override {
    if (att.head_size != kHead || batch.longest > gpu::kMostRecurrentRows) {
      return Ops::attend7(batch, att, p, wkv, y, pending);
    }
    gpu::wkv7(queue_, batch, att, p, wkv, y, INT64_MAX, true);
    linear(y, att.output, pending);
  }

  void time_mix7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
                 Tensor v_first, const Projected7& p, StateField wkv, Tensor y, Tensor pending) override {
    const bool fused = batch.decode_only() && batch.rows <= gpu::kMostFusedRows &&
                       gpu::suits_attend_row7(att, first_block) &&
                       suits_low_rank7(att, mixed[0], first_block);
    if (!fused) return Ops::time_mix7(batch, att, mixed, first_block, v_first, p, wkv, y, pending);
    Scratch scratch(*this);
    const gpu::LowRows7 low = low_rows7(scratch, batch.rows, att, first_block);
    first_products7(att, mixed, first_block, p, low, scratch);
    const gpu::Ahead ahead = bring_ahead({&att.output}, gpu::kAheadSquare);
    gpu::attend_row7(queue_, batch, att, first_block, v_first, low, p, wkv, y, ahead);
    linear(y, att.output, pending);
  }

  void channel_mix7(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                    Tensor pending, StateField ffn_shift) override {
    Scratch scratch(*this);
    const Tensor mixed = scratch.take(x.rows, x.cols), hidden = scratch.take(x.rows, ffn.key.out);
    const gpu::Mixes mixes{1, {ffn.mix.as<float>()}, {mixed}};
    const gpu::Ahead next = x.rows == 1 ? bring_ahead({&ffn.key}, gpu::kAheadKey) : gpu::Ahead{};
    const Tensor z = enter(batch, ffn.ln2, x, pending, ffn_shift, mixes, scratch, ffn.deep_embed, next);
    const gpu::FfnRowPlan row = gpu::plan_ffn_row(ffn.key, ffn.value, facts_.multiprocessors);
    if (x.rows == 1 && row.blocks > 0 && !ffn.deep_embed) {
      const Tensor partial = scratch.take(1, static_cast<int64_t>(row.partial_bytes), DType::u8);
      return gpu::ffn_row(queue_, row, mixed, ffn.key, ffn.value, pending, partial.as<float>());
    }
    key_product(mixed, ffn.key, hidden);
    if (ffn.deep_embed) {
      const Tensor scale = scratch.take(x.rows, ffn.key.out);
      deep_embed(batch, embedding, ffn, z, scale);
      multiply(hidden, scale, hidden);
    }
    linear(hidden, ffn.value, pending);
  }

  void enter6(const Batch& batch, const TimeMix6& att, Tensor x, Tensor pending, StateField att_shift,
              std::span<const Tensor, 5> mixed) override {
    Scratch scratch(*this);
    const Tensor low = scratch.take(x.rows, att.mix_w1.out);
    if (!gpu::suits_low_rank6(low, att.mix_w2[0])) {
      return Ops::enter6(batch, att, x, pending, att_shift, mixed);
    }
    const Tensor towards = scratch.take(x.rows, x.cols), previous = scratch.take(x.rows, x.cols);
    const gpu::Mixes mixes{2, {att.mix_x.as<float>(), nullptr}, {towards, previous}};
    const Tensor z = enter(batch, att.ln1, x, pending, att_shift, mixes, scratch, true);
    low_product(queue_, towards, att.mix_w1, low);
    gpu::mix6(queue_, att, z, previous, low, mixed);
  }

  void project6(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                const Projected6& p) override {
    const Tensor xw = mixed[0], xk = mixed[1], xv = mixed[2], xr = mixed[3], xg = mixed[4];
    Scratch scratch(*this);
    const Tensor low = scratch.take(batch.rows, att.w.first.out);
    if (!gpu::suits_low_rank6(low, att.w.second)) return Ops::project6(batch, att, mixed, p);
    if (few_rows(xw, att.w.first) && few_rows(xr, att.receptance)) {
      gpu::linear_rows(queue_, {{xw, att.w.first, low, Epilogue::tanh},
                                {xr, att.receptance, p.r},
                                {xk, att.key, p.k},
                                {xv, att.value, p.v},
                                {xg, att.gate, p.g, Epilogue::silu}});
      return gpu::decay6(queue_, att.w, low, p.u);
    }
    fork();
    low_product(side_[0], xw, att.w.first, low);
    gemm_->run(side_[1], xg, att.gate, p.g, worth_timing(xg.rows));
    gpu::activate(side_[1], p.g, {}, Activation::silu);
    linear(xr, att.receptance, p.r);
    linear(xk, att.key, p.k);
    linear(xv, att.value, p.v);
    gpu::decay6(join(), att.w, low, p.u);
  }

  void recur6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv,
              Tensor y) override {
    if (att.head_size != kHead || batch.longest <= gpu::kMostRecurrentRows)
      return wkv6(batch, att, p, wkv, y);
    if (plan_.short_sequences > 0) gpu::wkv6(queue_, batch, att, p, wkv, y, gpu::kMostRecurrentRows);
    Scratch scratch(*this);
    const auto bytes = static_cast<int64_t>(gpu::wkv6_chunk_workspace(chunks_.count, att.n_head));
    const Tensor workspace = scratch.take(1, bytes, DType::u8);
    Queue after = queue_;  // as in recur7
    after.overlap = false;
    gpu::wkv6_chunk(after, batch, chunks_, att.n_head, att.u.as<float>(), p, wkv, y, workspace.data);
  }

  void leave6(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y,
              Tensor pending) override {
    if (att.head_size != kHead) return Ops::leave6(batch, att, p, y, pending);
    gpu::leave_heads6(queue_, att, p.g, y);
    linear(y, att.output, pending);
  }

  void attend6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y,
               Tensor pending) override {
    if (att.head_size != kHead || batch.longest > gpu::kMostRecurrentRows) {
      return Ops::attend6(batch, att, p, wkv, y, pending);
    }
    gpu::wkv6(queue_, batch, att, p, wkv, y, INT64_MAX, true);
    linear(y, att.output, pending);
  }

  void channel_mix6(const Batch& batch, const ChannelMix6& ffn, Tensor x, Tensor pending,
                    StateField ffn_shift) override {
    Scratch scratch(*this);
    const Tensor for_key = scratch.take(x.rows, x.cols), for_gate = scratch.take(x.rows, x.cols);
    const Tensor gate = scratch.take(x.rows, x.cols), hidden = scratch.take(x.rows, ffn.key.out);
    const gpu::Mixes mixes{2, {ffn.mix_k.as<float>(), ffn.mix_r.as<float>()}, {for_key, for_gate}};
    enter(batch, ffn.ln2, x, pending, ffn_shift, mixes, scratch, false);
    if (few_rows(for_key, ffn.key) && few_rows(for_gate, ffn.receptance)) {
      gpu::linear_rows(queue_, {{for_key, ffn.key, hidden, Epilogue::relu_squared},
                                {for_gate, ffn.receptance, gate, Epilogue::sigmoid}});
      linear(hidden, ffn.value, pending);
      return multiply(pending, gate, pending);
    }
    fork();
    gemm_->run(side_[0], for_gate, ffn.receptance, gate, worth_timing(for_gate.rows));
    gpu::activate(side_[0], gate, {}, Activation::sigmoid);
    key_product(for_key, ffn.key, hidden);
    linear(hidden, ffn.value, pending);
    gpu::multiply(join(), pending, gate, pending);
  }

  void sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) override {
    FULMAR_CHECK(logits.dtype == DType::f32 && rows.size() == out.size());
    Scratch scratch(*this);
    float* numbers = nullptr;
    int64_t held = 0;
    const auto work = [&](int64_t count) {
      if (count > held) numbers = scratch.take(1, held = count, DType::f32).as<float>();
      return numbers;
    };
    for (const size_t i : sampler_.draw(queue_, logits, rows, out, work)) {
      Ops::sample(logits, rows.subspan(i, 1), out.subspan(i, 1));
    }
  }

 private:
  static constexpr size_t kCounters = 4096;      // of linear_value
  static constexpr size_t kTileCounters = 4096;  // of linear_tiles
  static constexpr size_t kFirstNumbers = 64 * 1024;
  static constexpr int kInputStages = 4;
  struct InputStage {
    void* pinned = nullptr;
    cudaEvent_t free = nullptr;
  };

  // The current device is a property of the calling thread, and ours may change between steps.
  void use_device() const { FULMAR_GPU(cudaSetDevice(facts_.index)); }

  static std::byte* slot_at(const State& state, int64_t slot) {
    FULMAR_CHECK(slot >= 0 && slot < state.slots);
    return state.base + static_cast<size_t>(slot) * state.layout.slot_bytes();
  }

  Status check_layer(int64_t width) {
    if (width % 8 != 0) {
      return Error{ErrorKind::unsupported,
                   "the model is " + std::to_string(width) + " wide; the GPU wants a multiple of 8"};
    }
    if (upload_.overflowed(queue_)) {
      return Error{ErrorKind::unsupported, "a weight lies beyond 65504, the largest number of f16; use bf16"};
    }
    return {};
  }

  Status grow_input(size_t numbers) {
    synchronise();
    FULMAR_ASSIGN(numbers_, gpu::allocate_device(numbers * sizeof(int32_t)));
    ++*memory_;
    for (InputStage& stage : input_stages_) {
      if (stage.pinned != nullptr) FULMAR_GPU(cudaFreeHost(stage.pinned));
      FULMAR_GPU(cudaMallocHost(&stage.pinned, numbers * sizeof(int32_t)));
    }
    return {};
  }

  // Row counts that come again and again: worth trying out the library's candidates.
  static bool worth_timing(int64_t rows) { return rows % 4 == 0; }

  static bool few_rows(Tensor in, const Weight& weight) {
    return in.rows <= gpu::kMostOwnRows && gpu::suits_rows_product(in, weight);
  }
  bool suits_low_rank7(const TimeMix7& att, Tensor in, bool first_block) const {
    if (in.rows > gpu::kMostTiledRows) return false;
    if (in.rows > gpu::kMostOwnRows && gpu::tile_shared_bytes(in.rows) > facts_.shared_memory) return false;
    for (const LowRank* path : {&att.w, &att.a, &att.g, &att.v}) {
      if (path == &att.v && first_block) continue;
      if (!gpu::suits_rows_product(in, path->first) || path->second.in % 8 != 0) return false;
    }
    return gpu::suits_rows_product(in, att.receptance);
  }

  static gpu::LowRows7 low_rows7(Scratch& scratch, int64_t rows, const TimeMix7& att, bool first_block) {
    return {scratch.take(rows, att.w.first.out), scratch.take(rows, att.a.first.out),
            first_block ? Tensor{} : scratch.take(rows, att.v.first.out),
            scratch.take(rows, att.g.first.out)};
  }

  // The beginning of each matrix, where the first is so large that the kernel which wants it cannot have all
  // of it on its way by itself.
  static gpu::Ahead bring_ahead(std::initializer_list<const Weight*> weights, int64_t most) {
    gpu::Ahead ahead;
    const auto bytes = [](const Weight& weight) {
      return weight.data == nullptr ? 0 : weight.in * weight.out * int64_t{sizeof(uint16_t)};
    };
    if (bytes(**weights.begin()) < gpu::kAheadShare * most) return ahead;
    int i = 0;
    for (const Weight* weight : weights) {
      ahead.data[i] = weight->data;
      ahead.bytes[i++] = static_cast<uint32_t>(std::min(most, bytes(*weight)) / 16 * 16);
    }
    return ahead;
  }

  // p.r, p.k, p.v and the first halves of the low-rank paths, in one launch.
  void first_products7(const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
                       const Projected7& p, const gpu::LowRows7& low, Scratch& scratch) {
    const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
    const gpu::RowsProduct products[] = {{xr, att.receptance, p.r},
                                         {xk, att.key, p.k},
                                         {xv, att.value, p.v},
                                         {xg, att.g.first, low.g, Epilogue::sigmoid},
                                         {xw, att.w.first, low.w, Epilogue::tanh},
                                         {xa, att.a.first, low.a},
                                         {xv, att.v.first, low.v}};
    const gpu::RowsProducts all(products, std::size(products) - (first_block ? 1 : 0));
    if (few_rows(xr, att.receptance)) return gpu::linear_rows(queue_, all);
    const gpu::TilePlan plan = gpu::plan_tiles(all, facts_.multiprocessors);
    FULMAR_CHECK(static_cast<size_t>(plan.tiles) <= kTileCounters);
    const Tensor partial = scratch.take(1, static_cast<int64_t>(plan.partial_bytes), DType::u8);
    gpu::linear_tiles(queue_, all, plan, partial.as<float>(),
                      static_cast<uint32_t*>(counters_.data()) + kCounters);
  }

  // For more rows than our own kernels pay for: two chains of low-rank products beside the large ones.
  void project_by_library7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                           bool first_block, Tensor v_first, const Projected7& p, const gpu::LowRows7& low,
                           Scratch& scratch) {
    const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
    const Tensor share = first_block ? Tensor{} : scratch.take(batch.rows, p.v.cols);
    fork();
    low_rank_path(side_[0], xg, att.g, low.g, p.g, Activation::sigmoid);
    low_rank_path(side_[1], xw, att.w, low.w, p.u, Activation::tanh);
    low_rank_path(side_[0], xa, att.a, low.a, p.alpha, {});
    if (!first_block) low_rank_path(side_[1], xv, att.v, low.v, share, {});
    linear(xr, att.receptance, p.r);
    linear(xk, att.key, p.k);
    linear(xv, att.value, p.v);
    gpu::finish_project7(join(), att, first_block, v_first, share, p);
  }

  void linear_value(Tensor in, const Weight& weight, Tensor out) {
    const gpu::ValuePlan plan =
        gpu::plan_value_product(in.rows, weight.in, weight.out, facts_.multiprocessors);
    FULMAR_CHECK(static_cast<size_t>(weight.out) / 128 <= kCounters);
    Scratch scratch(*this);
    const Tensor partial = scratch.take(1, static_cast<int64_t>(plan.partial_bytes), DType::u8);
    gpu::linear_value(queue_, plan, in, weight, out, partial.as<float>(),
                      static_cast<uint32_t*>(counters_.data()));
  }

  // out = act(in @ first^T) @ second^T
  void low_rank_path(const Queue& side, Tensor in, const LowRank& path, Tensor low, Tensor out,
                     std::optional<Activation> act) {
    gemm_->run(side, in, path.first, low, worth_timing(in.rows));
    if (act) gpu::activate(side, low, {}, *act);
    gemm_->run(side, low, path.second, out, worth_timing(in.rows));
  }

  // hidden = relu²(in @ key^T)
  void key_product(Tensor in, const Weight& key, Tensor hidden) {
    if (few_rows(in, key)) return gpu::linear_rows(queue_, {{in, key, hidden, Epilogue::relu_squared}});
    linear(in, key, hidden);
    activate(hidden, {}, Activation::relu_squared);
  }

  // low = tanh(in @ first^T), the first half of RWKV-6's low-rank paths
  void low_product(const Queue& queue, Tensor in, const Weight& first, Tensor low) {
    if (in.rows <= gpu::kMostTiledRows && gpu::suits_rows_product(in, first)) {
      return gpu::linear_rows(queue, {{in, first, low, Epilogue::tanh}});
    }
    gemm_->run(queue, in, first, low, worth_timing(in.rows));
    gpu::activate(queue, low, {}, Activation::tanh);
  }

  // The side queues run beside the main one until join.
  void fork() {
    FULMAR_GPU(cudaEventRecord(fork_, queue_.stream));
    for (const Queue& side : side_) FULMAR_GPU(cudaStreamWaitEvent(side.stream, fork_, 0));
  }
  // For the first kernel behind all of them, which waits for more than the one in front and cannot start
  // early.
  Queue join() {
    for (int i = 0; i < kSides; i++) {
      FULMAR_GPU(cudaEventRecord(join_[i], side_[i].stream));
      FULMAR_GPU(cudaStreamWaitEvent(queue_.stream, join_[i], 0));
    }
    Queue joined = queue_;
    joined.overlap = false;
    return joined;
  }

  // Returns the normalised rows where they were made.
  Tensor enter(const Batch& batch, const Norm& norm, Tensor x, Tensor pending, StateField carry,
               const gpu::Mixes& mixes, Scratch& scratch, bool needs_z, const gpu::Ahead& ahead = {}) {
    Tensor z, first;
    if (needs_z || !batch.decode_only()) {
      z = scratch.take(x.rows, x.cols);
      first = scratch.take(batch.sequences, x.cols, DType::f32);
    }
    gpu::enter(queue_, batch, norm, x, pending, carry, mixes, z, first.as<float>(), ahead);
    return z;
  }

  gpu::DeviceFacts facts_;
  DeviceOptions options_;
  Queue queue_;
  static constexpr int kSides = gpu::kQueues - 1;
  Queue side_[kSides];  // for small products beside large ones, between fork_ and join_
  cudaEvent_t fork_ = nullptr, join_[kSides] = {};
  std::unique_ptr<gpu::Gemm> gemm_;
  gpu::Arena arena_;
  gpu::Upload upload_;
  gpu::StepGraphs graphs_;
  gpu::Sampler sampler_;
  // Counts allocations and releases; outlives this object in the buffers that it gave away.
  std::shared_ptr<uint64_t> memory_ = std::make_shared<uint64_t>(0);
  Buffer counters_;
  Buffer numbers_;  // the step's index arrays
  InputStage input_stages_[kInputStages];
  int next_input_ = 0;
  gpu::StepPlan plan_;
  gpu::Chunks chunks_;
  const void* state_base_ = nullptr;
};

Result<gpu::DeviceFacts> facts_of(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return Error{ErrorKind::unsupported, std::string("no GPU can be used: ") + cudaGetErrorString(error)};
  }
  if (index < 0 || index >= count) {
    return Error{ErrorKind::unsupported,
                 "there is no GPU " + std::to_string(index) + "; this machine has " + std::to_string(count)};
  }
  cudaDeviceProp properties;
  FULMAR_GPU(cudaGetDeviceProperties(&properties, index));
  return gpu::DeviceFacts{index, properties.name, properties.multiProcessorCount,
                          properties.major * 10 + properties.minor, properties.sharedMemPerBlockOptin};
}

}  // namespace

std::vector<GpuInfo> list_gpus() {
  std::vector<GpuInfo> list;
  for (int index = 0;; index++) {
    const auto facts = facts_of(index);
    if (!facts.ok()) return list;
    cudaDeviceProp properties;
    FULMAR_GPU(cudaGetDeviceProperties(&properties, index));
    list.push_back({index, properties.name, properties.totalGlobalMem, properties.multiProcessorCount});
  }
}

Result<std::unique_ptr<Ops>> open_gpu(const DeviceOptions& options) {
  if (options.activation != DType::f16 && options.activation != DType::bf16) {
    return Error{ErrorKind::invalid,
                 "the GPU computes in f16 or bf16, not in " + std::string(name_of(options.activation))};
  }
  FULMAR_ASSIGN(gpu::DeviceFacts facts, facts_of(options.index));
  if (facts.architecture < kLeastArchitecture) {
    return Error{ErrorKind::unsupported,
                 facts.name + " has compute capability " + std::to_string(facts.architecture / 10) + "." +
                     std::to_string(facts.architecture % 10) + "; wanted 8.0 or later"};
  }
  FULMAR_GPU(cudaSetDevice(options.index));
  auto ops = std::make_unique<GpuOps>(std::move(facts), options);
  FULMAR_TRY(ops->open());
  return std::unique_ptr<Ops>(std::move(ops));
}

}  // namespace fulmar
