// RWKV-7 (x070) and RWKV-7a: the weights of its blocks and one forward over its islands.
#pragma once

#include <vector>

#include "model/stack.h"
#include "rwkv7/islands.h"

namespace fulmar {

class Rwkv7 final : public Stack {
 public:
  Rwkv7(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows);
  void layers(const Batch& batch, const State& state, LayerRange range, Stream& stream) override;

 private:
  Status bind_layer(Binder& binder, int64_t layer) override;

  std::vector<Layer<TimeMix7, ChannelMix7>> layers_;  // the layers of this stage
  Tensor mixed_[6];                                   // [rows, C] each: r w k v a g
  Tensor y_;                                          // [rows, A], output of the recurrence
  Projected7 projected_;                              // [rows, A] each
};

}  // namespace fulmar
