// RWKV-7 on the CPU: its primitives and the islands that are fused.
#pragma once

#include "cpu/norm_mix.h"
#include "cpu/wkv.h"
#include "rwkv7/islands.h"

namespace fulmar {

class CpuOps;

class CpuIslands7 final : public Islands7 {
 public:
  CpuIslands7(CpuOps& cpu, ThreadPool& pool);

  void key_prepare(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) override {
    cpu::key_prepare7(pool_, att, k, alpha, kk);
  }
  void wkv(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
           Tensor y) override {
    cpu::wkv7(pool_, batch, att, p, state, y);
  }
  void bonus(const TimeMix7& att, const Projected7& p, Tensor y) override { cpu::bonus7(pool_, att, p, y); }
  void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                  Tensor scale) override;

  void enter(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
             std::span<const Tensor, 6> mixed) override;
  void project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
               Tensor v_first, const Projected7& p) override;
  void leave(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) override;
  void channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                   Addend addend, StateField ffn_shift, Tensor pending) override;

 private:
  CpuOps& cpu_;
  ThreadPool& pool_;
};

}  // namespace fulmar
