// Plans the memory that a model and its largest step will take on each device, before anything is allocated.
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
  int64_t max_rows = 512;  // of one step, 1 to 65536
  int64_t max_wanted = 0;  // rows of one step whose logits are wanted; 0: max_rows
  int64_t slots = 0;       // states to be kept on the device with the model: they must fit
  // Steps under way at once on several devices; 0: one per stage. One device runs one step at a time.
  int64_t steps_under_way = 0;
  std::chrono::milliseconds collective_timeout{30'000};  // of a rank's wait for another
  bool allow_nonfinite = false;  // false: every weight is read once, and NaN or infinity refuses the model
  std::function<void(double fraction)> progress;  // called from 0 to 1 while weights are imported
};

Status check_options(const LoadOptions& options);
int64_t wanted_rows(const LoadOptions& options);
// Returns the sizes of the largest step, with rows padded as backends may.
StepShape step_shape(const ModelConfig& config, const LoadOptions& options);

// The part of a model on one device. A list of these, in the model's order, is a pipeline; consecutive ones
// with equal layers and all slices in order are the ranks of one stage (tensor parallelism).
struct Placed {
  Ops* ops = nullptr;
  LayerRange layers;
  Slice slice = {};
};

// Returns the layout of states, and of the rings beside them, for all layers
// of a model of this shape.
StateLayout state_layout_of(const ModelConfig& config, const Ops& ops);
RingLayout ring_layout_of(const ModelConfig& config, const Ops& ops, const StateWrites& writes);

// Bytes that a model takes on one device.
struct MemoryPlan {
  size_t weights = 0;    // copies made at load; what is borrowed from the mapped file is not counted
  size_t workspace = 0;  // of one step: activations, messages from another device, and the draws
  size_t per_slot = 0;   // a state and its ring
  int64_t slots = 0;     // as in LoadOptions

  size_t total() const { return weights + workspace + static_cast<size_t>(slots) * per_slot; }
};
// Plans by a dry run of load; fails as load would for missing and misshapen tensors.
Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                               const LoadOptions& options);

struct StagePlan {
  std::string device;  // Ops::name
  std::optional<int> gpu;
  LayerRange layers;
  Slice slice;
  MemoryPlan memory;
  size_t free = 0;  // of the device, before the stage is loaded
};
Result<std::vector<StagePlan>> plan_stages(const Checkpoint& checkpoint, const ModelConfig& config,
                                           std::span<const Placed> stages, const LoadOptions& options);

// Returns how many states fit into `free` bytes in addition to the rest of the
// plan; -1 if not even that fits.
int64_t most_slots(const MemoryPlan& plan, size_t free);

// Fails (resource), with all numbers, if a device lacks memory for its stages together.
Status check_memory(std::span<const StagePlan> stages);

// Returns the size of the largest message from one stage to the next, in bytes.
size_t stream_bytes(const ModelConfig& config, const StepShape& shape, const Ops& ops);

// Returns the largest collective calls of a stage's ranks in steps of this shape.
CollectiveOptions collective_options(const ModelConfig& config, const StepShape& shape,
                                     const LoadOptions& options);

// The buffers of a stage's last results.
struct Outputs {
  Tensor hidden;           // [wanted, C]
  Tensor logits;           // f32 [wanted, V]; empty on all slices but the first
  Tensor part;             // f32 [wanted, n]: a slice's part of the vocabulary; empty where it is whole
  int64_t part_first = 0;  // the part's first id
};
// Declares `outputs`, which must not move until the buffers are placed.
void declare_outputs(Buffers& buffers, const StepShape& shape, const Ops& ops, const Slice& slice,
                     Outputs& outputs);

}  // namespace fulmar
