// The CPU's Ops: which kernel each primitive calls. Included by the files that implement it; all others call
// make_cpu_ops (cpu_ops.h).
#pragma once

#include <string>
#include <vector>

#include "cpu/ceilings.h"
#include "cpu/cpu_ops.h"
#include "cpu/islands6.h"
#include "cpu/islands7.h"
#include "cpu/linear.h"
#include "cpu/norm_mix.h"
#include "cpu/thread_pool.h"
#include "cpu/weight_arena.h"

namespace fulmar {

class CpuOps : public Ops {
 public:
  explicit CpuOps(const CpuOptions& options);

  // ---- facts, memory, steps, slots (cpu_ops.cpp)

  std::string name() const override;
  DType activation_dtype() const override { return DType::f32; }
  StateWrites state_writes() const override { return state_writes_; }
  bool takes_deltas() const override { return true; }
  DeviceTraits traits() const override { return {.kind = "cpu"}; }
  size_t memory_free() const override;
  Result<Ceilings> measure_ceilings() override { return fulmar::measure_ceilings(pool_); }
  Result<Buffer> allocate(size_t bytes) override;
  void write(void* target, const void* host, size_t bytes) override;
  void read(void* host, const void* source, size_t bytes) override;
  void synchronise() override {}
  size_t import_bytes(const HostMatrix& matrix, WeightRole role) const override;
  Result<Weight> import_weight(const HostMatrix& matrix, WeightRole role) override;
  Result<Tensor> import_vector(std::span<const float> values, int64_t rows, int64_t cols) override;
  Batch begin_step(const StepInput& input, const State& state) override;
  void zero_slot(const State& state, int64_t slot) override;
  void copy_slot(const State& state, int64_t from, int64_t to) override;
  void sample(Tensor logits, std::span<const SampleRow> rows, std::span<SampledToken> out) override;

  Islands7& rwkv7() override { return rwkv7_; }
  Islands6& rwkv6() override { return rwkv6_; }

  // ---- primitives

  void embed(const Batch& batch, const Embedding& embedding, Tensor out) override {
    cpu::embed(pool_, batch, embedding, out);
  }
  void add(Tensor x, Tensor pending) override { cpu::add(pool_, x, pending); }
  void norm(Tensor x, const Norm& norm, Tensor out) override { cpu::norm(pool_, x, norm, out); }
  void shift(const Batch& batch, Tensor z, StateField carry, Tensor out) override {
    cpu::shift(pool_, batch, z, carry, out);
  }
  void lerp(Tensor z, Tensor other, Tensor mix, Tensor out) override { cpu::lerp(pool_, z, other, mix, out); }
  void lerp_shifted(Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) override {
    cpu::lerp_shifted(pool_, z, other, mix, delta, out);
  }
  void linear(Tensor in, const Weight& weight, Tensor out) override {
    const LinearTask task{in, &weight, out};
    products({&task, 1});
  }
  void activate(Tensor x, Tensor bias, Activation act) override { cpu::activate(pool_, x, bias, act); }
  void add_bias(Tensor x, Tensor bias) override { cpu::add_bias(pool_, x, bias); }
  void multiply(Tensor a, Tensor b, Tensor out) override { cpu::multiply(pool_, a, b, out); }
  void head_norm(int64_t n_head, const Norm& ln_x, Tensor y) override {
    cpu::head_norm(pool_, n_head, ln_x, y);
  }
  void gather_wanted(const Batch& batch, Tensor x, Tensor out) override {
    cpu::gather_rows(pool_, x, batch.wanted_row, out);
  }

  // Computes every product of primitives and islands, and adds the step's deltas; products of one call are
  // independent.
  virtual void products(std::span<const LinearTask> tasks) {
    linear_many(pool_, tasks, mode_);
    if (!deltas_.empty()) add_deltas(tasks);
  }

 private:
  void add_deltas(std::span<const LinearTask> tasks);
  void feed_drawn(const Drawn& drawn, const State& state);
  const std::byte* replayed(const State& state, int64_t slot, Scratch& scratch) override;
  void restore_fields(const State& state, int64_t slot, int64_t ring_row) override;

  ThreadPool pool_;
  StateWrites state_writes_;
  LinearMode mode_;
  WeightArena weights_;  // that could not be borrowed
  std::vector<Buffer> vectors_;
  std::vector<RingStep> ring_;
  StepDeltas deltas_;  // of the step that began last
  std::vector<int32_t> token_, start_, slot_, wanted_, sequence_of_;
  CpuIslands7 rwkv7_{*this, pool_};
  CpuIslands6 rwkv6_{*this, pool_};
};

}  // namespace fulmar
