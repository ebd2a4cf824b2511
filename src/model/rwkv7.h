// RWKV-7 (x070) and RWKV-7a: the weights of all blocks and one forward over the islands of Ops.
#pragma once

#include <functional>
#include <memory>

#include "model/bind.h"
#include "model/model.h"
#include "model/stack.h"

namespace fulmar {

class Rwkv7 final : public Model {
 public:
  // Declares the activations and imports the weights; `loaded(l)` is called after each of the l blocks.
  static Result<std::unique_ptr<Rwkv7>> bind(Binder& binder, int64_t max_rows,
                                             const std::function<void(int64_t)>& loaded);

 private:
  Rwkv7(const ModelConfig& config, Ops& ops, int64_t max_rows);
  void step(const Batch& batch, const State& state, Tensor hidden, Tensor logits) override;

  Stack<TimeMix7, ChannelMix7> stack_;

  Tensor x_;              // [rows, C], residual stream
  Tensor pending_;        // [rows, C], addend of the island before
  Tensor mixed_[6];       // [rows, C] each: r w k v a g
  Tensor v_first_;        // [rows, C], values of block 0; crosses layers, not tokens
  Tensor v_first_wide_;   // f32 [1, C], the same of a lone row
  Tensor y_;              // [rows, C], what the recurrence reads out
  Projected7 projected_;  // [rows, C] each
};

}  // namespace fulmar
