// A stage (pipeline parallelism): the part of a model that lies on one device, from what it receives to what
// it hands on. Some layers, or one slice of them.
#pragma once

#include <deque>
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
  static Result<std::unique_ptr<Stage>> load(const Source& source, Rank& rank, LayerRange layers,
                                             const Slice& slice);

  Rank& rank() const { return rank_; }
  LayerRange layers() const { return stack_->held(); }
  const Slice& slice() const { return stack_->slice(); }

  // Where the stream comes from and goes to; null at the model's two ends. `lone`: what a lone row has beside
  // it crosses, too, because both devices compute alike.
  void connect(Channel* before, Channel* behind, bool lone);
  // This stage's end of the group that has the other slices of its layers.
  void share_with(Collective* ranks);

  // On the rank's thread: one step of its layers.
  void run(const StepInput& input, const State& state);
  // On the rank's thread: throws DeviceFailure where a step that was run found another slice's rank missing.
  void check() const;

  // Of a step that wanted so many rows: [wanted, C] and [wanted, V], of the last layers alone.
  Tensor hidden(int64_t wanted) const { return outputs_.hidden.slice_rows(0, wanted); }
  Tensor logits() const { return outputs_.logits; }
  Tensor logits(int64_t wanted) const { return outputs_.logits.slice_rows(0, wanted); }
  // A slice's own part of them, and the id that it begins with. The first slice has room for the whole, which
  // is there once all slices have gathered it.
  Tensor part(int64_t wanted) const { return outputs_.part.slice_rows(0, wanted); }
  int64_t part_first() const { return outputs_.part_first; }
  void gather(int64_t wanted);

 private:
  explicit Stage(Rank& rank) : rank_(rank) {}
  // What crosses of a stream of so many rows.
  std::vector<Tensor> message(const Stream& stream, int64_t rows) const;
  void compute(const Batch& batch, const State& state, Stream stream);
  void read_out(const Batch& batch, const Stream& stream);

  Rank& rank_;
  Buffers buffers_;
  std::unique_ptr<Stack> stack_;
  std::deque<Binder::Copy> copies_;  // that weights point to
  Outputs outputs_;
  Collective* ranks_ = nullptr;
  Channel* before_ = nullptr;
  Channel* behind_ = nullptr;
  bool lone_ = true;
  int64_t most_rows_ = 0;
};

}  // namespace fulmar
