// RWKV-7 (x070) and RWKV-7a: the weights of its blocks and one forward over its islands.
#pragma once

#include <vector>

#include "model/stack.h"
#include "rwkv7/islands.h"

namespace fulmar {

// Binds a layer's weights, for RWKV-7 and for other versions whose blocks have its time mix or channel mix.
TimeMix7 bind_time_mix7(Binder& binder, int64_t layer);
ChannelMix7 bind_channel_mix7(Binder& binder, int64_t layer);

// The tensors between the islands of a block, in the stack's buffers.
class Memory7 {
 public:
  // Declares them for at most max_rows rows; `head_width` is A.
  Memory7(Buffers& buffers, int64_t max_rows, int64_t width, int64_t head_width, DType dtype);
  Block7Work work(const Batch& batch, const Stream& stream, const Addend& time_mixed) const;

 private:
  Tensor mixed_[6];       // [rows, C] each: r w k v a g
  Tensor y_;              // [rows, A], output of the recurrence
  Projected7 projected_;  // [rows, A] each
};

class Rwkv7 final : public Stack {
 public:
  Rwkv7(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows);
  void layers(const Batch& batch, const State& state, LayerRange range, Stream& stream) override;

 private:
  Status bind_layer(Binder& binder, int64_t layer) override;

  std::vector<Layer<TimeMix7, ChannelMix7>> layers_;  // the layers of this stage
  Memory7 memory_;
};

}  // namespace fulmar
