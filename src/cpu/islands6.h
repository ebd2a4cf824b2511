// RWKV-6 on the CPU: its recurrence and the islands that are fused.
#pragma once

#include "cpu/wkv.h"
#include "rwkv6/islands.h"

namespace fulmar {

class CpuOps;

class CpuIslands6 final : public Islands6 {
 public:
  CpuIslands6(CpuOps& cpu, ThreadPool& pool);

  void wkv(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
           Tensor y) override {
    cpu::wkv6(pool_, batch, att, p, state, y);
  }

  void enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
             std::span<const Tensor, 5> mixed) override;
  void project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
               const Projected6& p) override;
  void leave(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) override;
  void channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend, StateField ffn_shift,
                   Tensor pending) override;

 private:
  CpuOps& cpu_;
  ThreadPool& pool_;
};

}  // namespace fulmar
