// RWKV-6 on a GPU: the islands' fused forms.
#pragma once

#include "gpu/islands/open_device.h"
#include "rwkv6/islands.h"

namespace fulmar {

class GpuIslands6 : public Islands6 {
 public:
  GpuIslands6(Ops& ops, const gpu::OpenDevice& gpu) : Islands6(ops), gpu_(gpu) {}

  void wkv(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state, Tensor y) override;

  void enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
             std::span<const Tensor, 5> mixed) override;
  void project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
               const Projected6& p) override;
  void recur(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
             Tensor y) override;
  void leave(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) override;
  void attend(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state, Tensor y,
              Tensor pending) override;
  void channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend, StateField ffn_shift,
                   Tensor pending) override;

 private:
  const gpu::OpenDevice& gpu_;
};

// The islands of steps with deltas, as GpuSplitIslands7 are.
class GpuSplitIslands6 final : public GpuIslands6 {
 public:
  using GpuIslands6::GpuIslands6;

  void enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
             std::span<const Tensor, 5> mixed) override {
    Islands6::enter(batch, att, x, pending, att_shift, mixed);
  }
  void project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
               const Projected6& p) override {
    Islands6::project(batch, att, mixed, p);
  }
  void leave(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y,
             Tensor pending) override {
    Islands6::leave(batch, att, p, y, pending);
  }
  void attend(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state, Tensor y,
              Tensor pending) override {
    Islands6::attend(batch, att, p, state, y, pending);
  }
  void channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend, StateField ffn_shift,
                   Tensor pending) override {
    Islands6::channel_mix(batch, ffn, x, addend, ffn_shift, pending);
  }
};

}  // namespace fulmar
