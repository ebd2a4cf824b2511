// What a model and its largest step will take of each device's memory, known before anything is allocated.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"
#include "model/buffers.h"
#include "model/stack.h"
#include "ops/ops.h"

namespace fulmar {

struct LoadOptions {
  int64_t max_rows = 512;  // rows of one step, 1 to 65536
  int64_t max_wanted = 0;  // rows of one step whose logits are wanted; 0: max_rows
  int64_t slots = 0;       // states that will be kept beside the model: there must be room for them
  // Steps under way at once on several devices; 0: as many as there are stages. A step on one device is the
  // only one.
  int64_t steps_under_way = 0;
  std::chrono::milliseconds collective_timeout{30'000};  // of a rank that waits for another one's slice
  bool allow_nonfinite = false;  // false: every weight is read once, and NaN or infinity refuses the model
  std::function<void(double fraction)> progress;  // called from 0 to 1 while weights are imported
};

Status check_options(const LoadOptions& options);
int64_t wanted_rows(const LoadOptions& options);
// Sizes of the largest step, rows padded as backends may.
StepShape step_shape(const ModelConfig& config, const LoadOptions& options);

// What of the model lies on which device. Several of these, in the model's order, are a pipeline; those of
// equal layers, all slices of them in order, are the ranks of one stage (tensor parallelism).
struct Placed {
  Ops* ops = nullptr;
  LayerRange layers;
  Slice slice = {};
};

// The state layout that models of this shape use on this backend, for all layers, and the rings beside their
// slots.
StateLayout state_layout_of(const ModelConfig& config, const Ops& ops);
RingLayout ring_layout_of(const ModelConfig& config, const Ops& ops, const StateWrites& writes);

// Bytes on one device.
struct MemoryPlan {
  size_t weights = 0;    // copies made at load; what is borrowed from the mapped file is not counted
  size_t workspace = 0;  // of one step, what it receives from another device, and the draws behind it
  size_t per_slot = 0;   // one state and its ring
  int64_t slots = 0;     // as in LoadOptions

  size_t total() const { return weights + workspace + static_cast<size_t>(slots) * per_slot; }
};
// By a dry run of what load binds and declares: fails as that would for missing and misshapen tensors.
Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                               const LoadOptions& options);

struct StagePlan {
  std::string device;  // Ops::name
  std::optional<int> gpu;
  LayerRange layers;
  Slice slice;
  MemoryPlan memory;
  size_t free = 0;  // of the device's memory, before the stage is loaded
};
Result<std::vector<StagePlan>> plan_stages(const Checkpoint& checkpoint, const ModelConfig& config,
                                           std::span<const Placed> stages, const LoadOptions& options);

// How many states fit into so many free bytes beside the rest of the plan; -1 where not even that fits.
int64_t most_slots(const MemoryPlan& plan, size_t free);

// Fails with kind resource and all numbers where a device lacks memory for its stages together.
Status check_memory(std::span<const StagePlan> stages);

// Bytes of the largest message from one stage to the next.
size_t stream_bytes(const ModelConfig& config, const StepShape& shape, const Ops& ops);

// What the ranks of a stage prepare for in steps of such a shape.
CollectiveOptions collective_options(const ModelConfig& config, const StepShape& shape,
                                     const LoadOptions& options);

// What a stage computes its last results into.
struct Outputs {
  Tensor hidden;  // [wanted, C]
  Tensor logits;  // f32 [wanted, V]; empty on all slices but the first
  Tensor part;    // f32 [wanted, n]: of a slice's own part of the vocabulary; empty where it is whole
  int64_t part_first = 0;  // where that begins
};
// `outputs` stays where it is until the buffers are placed.
void declare_outputs(Buffers& buffers, const StepShape& shape, const Ops& ops, const Slice& slice,
                     Outputs& outputs);

}  // namespace fulmar
