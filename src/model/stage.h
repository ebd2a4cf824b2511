// A pipeline stage: the part of a model that lies on one device, from what it receives to what it hands on.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
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
    Fingerprint& fingerprint;             // stages are loaded in their order
    std::function<void(int64_t)> loaded;  // called with the number of layers so far
  };
  // `rank` outlives the stage, and runs nothing meanwhile.
  static Result<std::unique_ptr<Stage>> load(const Source& source, Rank& rank, LayerRange layers);

  Rank& rank() const { return rank_; }
  LayerRange layers() const { return stack_->held(); }

  // Where the stream comes from and goes to; null at the model's two ends. `lone`: what a lone row has beside
  // it crosses, too, because both devices compute alike.
  void connect(Channel* before, Channel* behind, bool lone);

  // On the rank's thread: one step of its layers.
  void run(const StepInput& input, const State& state);

  // Of a step that wanted so many rows: [wanted, C] and [wanted, V], of the last stage alone.
  Tensor hidden(int64_t wanted) const { return hidden_.slice_rows(0, wanted); }
  Tensor logits(int64_t wanted) const { return logits_.slice_rows(0, wanted); }

 private:
  explicit Stage(Rank& rank) : rank_(rank) {}
  // What crosses of a stream of so many rows.
  std::vector<Tensor> message(const Stream& stream, int64_t rows) const;
  void compute(const Batch& batch, const State& state, Stream stream);

  Rank& rank_;
  Buffers buffers_;
  std::unique_ptr<Stack> stack_;
  Tensor hidden_, logits_;
  Channel* before_ = nullptr;
  Channel* behind_ = nullptr;
  bool lone_ = true;
  int64_t most_rows_ = 0;
};

}  // namespace fulmar
