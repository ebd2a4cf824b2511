// The GPU backend behind Ops: one device, its streams and its memory.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device/memory.h"
#include "gpu/device/peer_collective.h"
#include "gpu/device/step_graph.h"
#include "gpu/device/step_input.h"
#include "gpu/device/upload.h"
#include "gpu/gemm/dispatcher.h"
#include "gpu/islands/islands6.h"
#include "gpu/islands/islands7.h"
#include "gpu/sampling/sampler.h"
#include "gpu/step_deltas.h"
#include "ops/device.h"

namespace fulmar {

class GpuOps final : public Ops {
 public:
  GpuOps(gpu::DeviceFacts facts, const DeviceOptions& options)
      : facts_(std::move(facts)), options_(options) {}

  ~GpuOps() override;

  Status open();

  // ---- facts

  std::string name() const override {
    return gpu::kVendorDevice + (":" + std::to_string(facts_.index)) + " (" + facts_.name + ")";
  }
  DType activation_dtype() const override { return options_.activation; }
  DType wkv_dtype() const override { return options_.half_state ? DType::f16 : DType::f32; }
  StateWrites state_writes() const override { return options_.state_writes; }
  bool replays(int64_t head_size) const override;
  DeviceTraits traits() const override {
    return {.kind = facts_.name,
            .gpu = facts_.index,
            .own_memory = true,
            .half_states = true,
            .suitable_rows = 2048,
            .suitable_sequences = 1024};
  }
  int64_t padded_rows(int64_t rows) const override {
    return options_.capture && rows <= gpu::kMostCapturedRows ? gpu::padded_rows(rows) : rows;
  }
  bool takes_deltas() const override { return true; }
  bool asynchronous() const override { return true; }
  size_t memory_free() const override;
  std::vector<int64_t> rows_to_warm(int64_t most) const override {
    return ways_.fixed_order ? std::vector<int64_t>() : gemm_->library().buckets(most);
  }
  Result<Ceilings> measure_ceilings() override;

  // ---- memory

  Result<Buffer> allocate(size_t bytes) override;
  void write(void* target, const void* host, size_t bytes) override;
  void read(void* host, const void* source, size_t bytes) override;
  void synchronise() override;

  size_t workspace_bytes(const StepShape& shape) const override;
  size_t import_bytes(const HostMatrix& matrix, WeightRole role) const override;
  Result<Weight> import_weight(const HostMatrix& matrix, WeightRole role) override;
  Result<Tensor> import_vector(std::span<const float> values, int64_t rows, int64_t cols) override;
  Status check_layer(int64_t width) override;

  Result<Buffer> index_deltas(const DeltaSet& deltas) override;

  Islands7& rwkv7() override {
    if (deltas_.empty()) return rwkv7_;
    return split7_;
  }
  Islands6& rwkv6() override {
    if (deltas_.empty()) return rwkv6_;
    return split6_;
  }

  // ---- steps

  Batch begin_step(const StepInput& input, const State& state) override;
  void run_step(const Batch& batch, const std::function<void()>& body) override;

  // ---- slots

  void zero_slot(const State& state, int64_t slot) override;
  void copy_slot(const State& state, int64_t from, int64_t to) override;

  Result<std::unique_ptr<Channel>> channel_from(Ops& sender, size_t bytes) override;
  Result<std::vector<std::unique_ptr<Collective>>> collectives_of(std::span<Ops* const> group,
                                                                  const CollectiveOptions& options) override;
  size_t collective_bytes(int64_t size, const CollectiveOptions& options) const override;
  Result<std::unique_ptr<SharedDraws>> draws_of(std::span<Ops* const> group, int64_t vocab,
                                                std::chrono::milliseconds timeout) override;
  // Returns these devices as ends of a peer group; empty where one of them is no GPU.
  static std::vector<gpu::PeerEnd> peer_ends(std::span<Ops* const> group);

  // ---- primitives

  void embed(const Batch& batch, const Embedding& embedding, Tensor out) override;
  void add(Tensor x, Tensor pending) override;
  void norm(Tensor x, const Norm& norm, Tensor out) override;
  void shift(const Batch& batch, Tensor z, StateField carry, Tensor out) override;
  void lerp(Tensor z, Tensor other, Tensor mix, Tensor out) override;
  void lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) override;
  void linear(Tensor in, const Weight& weight, Tensor out) override;
  void activate(Tensor x, Tensor bias, Activation act) override;
  void add_bias(Tensor x, Tensor bias) override;
  void multiply(Tensor a, Tensor b, Tensor out) override;
  void head_norm(int64_t n_head, const Norm& ln_x, Tensor y) override;
  void gather_wanted(const Batch& batch, Tensor x, Tensor out) override;

  // ---- the head and the draws

  void read_out(const Batch& batch, const Head& head, Tensor x, Addend pending, Tensor hidden,
                Tensor logits) override;
  void sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) override;
  bool begin_sample(Tensor logits, std::span<const SampleRow> rows) override;
  void finish_sample(std::span<SampledToken> out) override;
  const void* drawn() const override { return sampler_.results(); }

 private:
  friend class GpuDraws;
  static constexpr int kInputStages = 4;
  struct InputStage {
    Buffer pinned;
    Buffer deltas;  // pinned; grows to the most rows with deltas
    cudaEvent_t free = nullptr;
  };

  // Returns the type in which a matrix stored as `stored` is kept on the device.
  DType imported_dtype(DType stored, WeightRole role) const;
  // Makes this device the calling thread's current one, which earlier work of the thread may have changed.
  void use_device() const { FULMAR_GPU(cudaSetDevice(facts_.index)); }

  // Enqueues the draws of those rows that the device can do. Returns false where there is no memory for it.
  bool begin_draws(Tensor logits, std::span<const SampleRow> rows);
  const std::byte* replayed(const State& state, int64_t slot, Scratch& scratch) override;
  void restore_fields(const State& state, int64_t slot, int64_t ring_row) override;
  // Computes each sequence's ring action (empty where the step uses no rings) and returns whether any row may
  // be rolled back. Pending rows are written to the state first where the step's kernels have no ring
  // support.
  bool begin_rings(const StepInput& input, const State& state);

  // Copies the step's rows with deltas to the device.
  void send_deltas(InputStage& stage);
  static bool stays_quantised(const HostMatrix& matrix, WeightRole role);
  // Returns whether a matrix is kept transposed, so that rows of it that meet zeros are skipped. False in
  // deterministic mode, which skips nothing, and without mma.sync, which the sparse kernels need.
  bool skips_zeros(WeightRole role) const {
    return role == WeightRole::ffn_value && facts_.matrix_units && !ways_.fixed_order;
  }
  // Returns the layout of a quantised matrix on the device, without its data; code_bytes returns the size of
  // its codes in bytes.
  Weight codes_of(const HostMatrix& matrix, WeightRole role) const;
  static size_t code_bytes(const Weight& weight);
  Result<Weight> import_codes(const HostMatrix& matrix, WeightRole role);

  gpu::DeviceFacts facts_;
  DeviceOptions options_;
  gpu::IslandWays ways_;
  gpu::Queue queue_;
  std::unique_ptr<gpu::GemmDispatcher> gemm_;
  gpu::Arena arena_;
  gpu::Upload upload_;
  gpu::StepGraphs graphs_;
  gpu::Sampler sampler_;
  // Counts allocations and releases. Outlives this object in the buffers that were handed out.
  std::shared_ptr<std::atomic<uint64_t>> memory_ = std::make_shared<std::atomic<uint64_t>>(0);
  Buffer numbers_;  // the step's index arrays
  gpu::StepDeltaRows deltas_{*this};
  Buffer delta_rows_;  // those of the step
  InputStage input_stages_[kInputStages];
  int next_input_ = 0;
  gpu::StepPlan plan_;
  std::vector<RingStep> ring_;
  gpu::Chunks chunks_;
  const void* state_base_ = nullptr;
  const gpu::OpenDevice device_{facts_, ways_, queue_, gemm_, plan_, chunks_};
  GpuIslands7 rwkv7_{*this, device_};
  GpuIslands6 rwkv6_{*this, device_};
  GpuSplitIslands7 split7_{*this, device_};
  GpuSplitIslands6 split6_{*this, device_};
};

}  // namespace fulmar
