// A stage (pipeline parallelism): the part of a model on one device, from the message it receives to the one
// it sends: some layers, or one slice of them.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "base/result.h"
#include "model/device_adapter.h"
#include "model/fingerprint.h"
#include "model/memory_plan.h"
#include "ranks/rank.h"

namespace fulmar {

class Stage {
 public:
  struct Source {
    const Checkpoint& checkpoint;  // outlives the stage
    const ModelConfig& config;
    StepShape shape;
    Fingerprint& fingerprint;             // stages are loaded in order
    std::function<void(int64_t)> loaded;  // called with the number of layers so far
  };
  // Loads a stage. `rank` outlives it, and runs nothing meanwhile.
  static Result<std::unique_ptr<Stage>> load(const Source& source, Rank& rank, LayerRange layers,
                                             const Slice& slice);

  Rank& rank() const { return rank_; }
  LayerRange layers() const { return stack_->held(); }
  const Slice& slice() const { return stack_->slice(); }

  // Sets the channels from and to the neighbouring stages; null at the model's two ends. `lone`: also send
  // the f32 copy of v_first that batch 1 uses; set where both devices compute alike.
  void connect(Channel* before, Channel* behind, bool lone);
  // Sets this stage's end of the group with the other slices of its layers.
  void share_with(Collective* ranks);

  // Runs one step of its layers. Call on the rank's thread.
  void run(const StepInput& input, const State& state);
  // Throws DeviceFailure if a step timed out waiting for another slice's rank. Call on the rank's thread.
  void check() const;

  bool binds(const std::string& matrix) const;  // by official name
  // Copies those changes to the device that are of matrices held here. Call on the rank's thread.
  Status add_deltas(std::span<const HostDelta> deltas, DeviceAdapter& adapter);

  // Returns the outputs of a step with `wanted` wanted rows, [wanted, C] and
  // [wanted, V]; last stage only.
  Tensor hidden(int64_t wanted) const { return outputs_.hidden.slice_rows(0, wanted); }
  Tensor logits() const { return outputs_.logits; }
  Tensor logits(int64_t wanted) const { return outputs_.logits.slice_rows(0, wanted); }
  // Returns a slice's part of the logits, and its first id. The first slice also has the whole logits, valid
  // once all slices have gathered them.
  Tensor part(int64_t wanted) const { return outputs_.part.slice_rows(0, wanted); }
  int64_t part_first() const { return outputs_.part_first; }
  void gather(int64_t wanted);

 private:
  explicit Stage(Rank& rank) : rank_(rank) {}
  // Returns the tensors that the next stage needs of a stream of `rows` rows.
  std::vector<Tensor> message(const Stream& stream, int64_t rows) const;
  void compute(const Batch& batch, const State& state, Stream stream);
  void read_out(const Batch& batch, const Stream& stream);

  Rank& rank_;
  Buffers buffers_;
  std::unique_ptr<Stack> stack_;
  BoundMatrices bound_;
  std::deque<Binder::Copy> copies_;  // memory of copied columns that weights point to
  Outputs outputs_;
  Collective* ranks_ = nullptr;
  Channel* before_ = nullptr;
  Channel* behind_ = nullptr;
  bool lone_ = true;
  int64_t most_rows_ = 0;
};

}  // namespace fulmar
