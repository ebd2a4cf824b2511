// A loaded model: what the engine, the benchmarks and the tools see of any RWKV version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"
#include "model/buffers.h"
#include "model/stack.h"
#include "ops/ops.h"

namespace fulmar {

struct LoadOptions {
  int64_t max_rows = 512;        // rows of one step, 1 to 65536
  int64_t max_wanted = 0;        // rows of one step whose logits are wanted; 0: max_rows
  int64_t slots = 0;             // states that will be kept beside the model: there must be room for them
  bool allow_nonfinite = false;  // false: every weight is read once, and NaN or infinity refuses the model
  std::function<void(double fraction)> progress;  // called from 0 to 1 while weights are imported
};

// Bytes that a model will take on its backend, known before anything is allocated.
struct MemoryPlan {
  size_t weights = 0;    // copies made at load; what is borrowed from the mapped file is not counted
  size_t workspace = 0;  // of one step and the draws behind it
  size_t per_slot = 0;   // one state and its ring
  int64_t slots = 0;     // as in LoadOptions

  size_t total() const { return weights + workspace + static_cast<size_t>(slots) * per_slot; }
};
// By a dry run of what load binds and declares: fails as that would for missing and misshapen tensors.
Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                               const LoadOptions& options);

// How many states fit into so many free bytes beside the rest of the plan; -1 where not even that fits.
int64_t most_slots(const MemoryPlan& plan, size_t free);

// The state layout that models of this shape use on this backend, and the rings beside their slots.
StateLayout state_layout_of(const ModelConfig& config, const Ops& ops);
RingLayout ring_layout_of(const ModelConfig& config, const Ops& ops, const StateWrites& writes);

class Model {
 public:
  // The checkpoint has official names and orientation; it lives as long as the model, which may borrow from
  // it. Refuses missing and misshapen tensors, naming tensor, found and wanted shape.
  static Result<std::unique_ptr<Model>> load(std::unique_ptr<Checkpoint> checkpoint, Ops& ops,
                                             const LoadOptions& options);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }
  const MemoryPlan& memory() const { return memory_; }
  int64_t max_rows() const { return max_rows_; }
  int64_t max_wanted() const { return max_wanted_; }
  StateLayout state_layout() const { return state_layout_of(config_, ops_); }
  RingLayout ring_layout() const { return ring_layout_of(config_, ops_, ops_.state_writes()); }
  // Hex text that names shape and sampled weights: equal for equal weights, whatever file they came from.
  const std::string& fingerprint() const { return fingerprint_; }

  // Runs the packed rows, at most max_rows, and updates the states of their slots in place. Returns f32
  // logits [wanted, V] in backend memory (empty when nothing is wanted), valid until the next call.
  Tensor forward(const StepInput& input, const State& state);
  // [wanted, C] of the last forward: the hidden vectors after the final norm, in the activation type.
  Tensor hidden() const { return hidden_.slice_rows(0, wanted_); }

 private:
  Model(const ModelConfig& config, Ops& ops) : config_(config), ops_(ops) {}

  // One step over all layers, from the embedding to the wanted rows of `hidden` and `logits`.
  void step(const Batch& batch, const State& state, Tensor hidden, Tensor logits);

  ModelConfig config_;
  Ops& ops_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::string fingerprint_;
  MemoryPlan memory_;
  Buffers buffers_;
  std::unique_ptr<Stack> stack_;
  Tensor hidden_, logits_;
  int64_t max_rows_ = 0;
  int64_t max_wanted_ = 0;
  int64_t wanted_ = 0;
};

}  // namespace fulmar
