// RWKV-6 (x060): the weights of all blocks and one forward over the islands of Ops.
#pragma once

#include <functional>
#include <memory>

#include "model/bind.h"
#include "model/model.h"
#include "model/stack.h"

namespace fulmar {

class Rwkv6 final : public Model {
 public:
  // Declares the activations and imports the weights; `loaded(l)` is called after each of the l blocks.
  static Result<std::unique_ptr<Rwkv6>> bind(Binder& binder, int64_t max_rows,
                                             const std::function<void(int64_t)>& loaded);

 private:
  Rwkv6(const ModelConfig& config, Ops& ops, int64_t max_rows);
  void step(const Batch& batch, const State& state, Tensor hidden, Tensor logits) override;

  Stack<TimeMix6, ChannelMix6> stack_;

  Tensor x_;              // [rows, C], residual stream
  Tensor pending_;        // [rows, C], addend of the island before
  Tensor mixed_[5];       // [rows, C] each: w k v r g
  Tensor y_;              // [rows, C], what the recurrence reads out
  Projected6 projected_;  // [rows, C] each
};

}  // namespace fulmar
