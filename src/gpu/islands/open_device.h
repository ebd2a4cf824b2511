// An opened device as islands see it, and the stages with GEMMs that the islands of every version share.
#pragma once

#include <memory>

#include "gpu/device/device.h"
#include "gpu/device/prefetch.h"
#include "gpu/device/step_input.h"
#include "gpu/gemm/dispatcher.h"
#include "gpu/islands/island_ways.h"
#include "gpu/recurrence/recurrence.h"
#include "gpu/stages/enter.h"
#include "ops/ops.h"

namespace fulmar::gpu {

// Refers to what GpuOps owns.
struct OpenDevice {
  const DeviceFacts& facts;
  const IslandWays& ways;
  const Queue& queue;
  const std::unique_ptr<GemmDispatcher>& gemm;
  // of the step under way
  const StepPlan& plan;
  const Chunks& chunks;

  // Returns the main stream with PDL off: started early, the few blocks of a walk over chunks would crowd
  // onto the SMs that become free first.
  Queue without_pdl() const;

  // Returns whether the chunked recurrence is used for those of the batch's sequences that are long enough.
  bool in_chunks(const Batch& batch, int64_t head_size) const;
  // Calls run(part) for the sequences that a step with chunks still runs token by token: first those of one
  // row, which have kernels of their own, then the others, among which run() has to skip the long ones.
  template <class F>
  void for_short_sequences(const Batch& batch, F&& run) const {
    if (plan.singles > 0) run(batch.singles(plan.singles));
    if (plan.short_sequences > plan.singles) run(batch.behind_singles(plan.singles));
  }

  // Runs the pre-mix, `to` without its z. Returns the normalised rows if they were written, else an empty
  // tensor.
  Tensor enter(const Batch& batch, PreMix to, const Addend& pending, Ops::Scratch& scratch, bool needs_z,
               const Prefetch& next = {}) const;

  // Returns the number of partial sums (one per thread block) of the fused feed-forward at few rows, ffn_rows
  // or ffn_packed; 0: not supported.
  int64_t few_rows_parts(Tensor in, const Weight& key, const Weight& value) const;
  // Computes out = value @ relu²(key @ in), fused where a fused kernel supports the operands.
  void feed_forward(Tensor in, const Weight& key, const Weight& value, Tensor out,
                    Ops::Scratch& scratch) const;
};

}  // namespace fulmar::gpu
