// RWKV-6 (x060): the weights of its blocks and one forward over its islands.
#pragma once

#include <vector>

#include "model/stack.h"
#include "rwkv6/islands.h"

namespace fulmar {

class Rwkv6 final : public Stack {
 public:
  Rwkv6(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows);
  void layers(const Batch& batch, const State& state, LayerRange range, Stream& stream) override;

 private:
  Status bind_layer(Binder& binder, int64_t layer) override;

  std::vector<Layer<TimeMix6, ChannelMix6>> layers_;  // the layers of this stage
  Tensor mixed_[5];                                   // [rows, C] each: w k v r g
  Tensor y_;                                          // [rows, A], output of the recurrence
  Projected6 projected_;                              // [rows, A] each
};

}  // namespace fulmar
