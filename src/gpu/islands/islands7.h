// RWKV-7 on a GPU: the islands' fused forms (islands7.cpp), and a whole block at batch 1 (row7.cpp).
#pragma once

#include "gpu/gemm/gemv.h"
#include "gpu/islands/open_device.h"
#include "gpu/stages/low_rank.h"
#include "rwkv7/islands.h"

namespace fulmar {

class GpuIslands7 : public Islands7 {
 public:
  GpuIslands7(Ops& ops, const gpu::OpenDevice& gpu) : Islands7(ops), gpu_(gpu) {}

  void key_prepare(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) override;
  void wkv(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state, Tensor y) override;
  void bonus(const TimeMix7& att, const Projected7& p, Tensor y) override;
  void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                  Tensor scale) override;

  void enter(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
             std::span<const Tensor, 6> mixed) override;
  void project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
               Tensor v_first, const Projected7& p) override;
  void recur(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
             Tensor y) override;
  void leave(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) override;
  void attend(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state, Tensor y,
              Tensor pending) override;
  void time_mix(const Batch& batch, const TimeMix7& att, bool first_block, const Block7Work& work,
                StateField state) override;
  void channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                   Addend addend, StateField ffn_shift, Tensor pending) override;
  bool block(const Batch& batch, const Block7& block, Tensor x, const Block7Work& work,
             const Block7State& state) override;

 private:
  static gpu::LowRows7 low_rows(Scratch& scratch, int64_t rows, const TimeMix7& att, bool first_block);
  // Runs project as two grouped launches (LowRankEnd::two_launches); `first` are the GEMMs of its inputs.
  // Returns false, having done nothing, where a launch cannot be grouped.
  bool project_few(gpu::GemmList first, const TimeMix7& att, bool first_block, Tensor v_first,
                   const gpu::LowRows7& low, const Projected7& p);
  // Computes out = between(in @ first^T) @ second^T.
  void low_rank_path(const gpu::Queue& queue, Tensor in, const LowRank& path, Tensor low, Tensor out,
                     gpu::Epilogue between = gpu::Epilogue::none);
  // Runs time_mix where every sequence is chunked: finish_project7 is fused into the chunks' preparation.
  void chunked_time_mix(const Batch& batch, const TimeMix7& att, bool first_block, const Block7Work& work,
                        StateField state);
  // Takes scratch for the chunked recurrence's two kernels, by mma.sync fragments or by 16 x 16 tiles.
  Tensor chunk_workspace(Scratch& scratch, const TimeMix7& att) const;
  void prepare_walk(const gpu::Queue& queue, const TimeMix7& att, const Projected7& p,
                    const gpu::RawProjected7& raw, Tensor workspace) const;
  void walk(const Batch& batch, const TimeMix7& att, StateField state, Tensor y, Tensor workspace) const;

  // Returns whether the batch-1 kernels (row7.cpp) support a block's weights.
  bool suits_row(const TimeMix7& att, const ChannelMix7& ffn, bool first_block) const;
  // Returns the number of partial sums (one per thread block) of the fused batch-1 feed-forward, ffn_row or
  // ffn_packed; 0: not supported, run two GEMMs.
  int64_t lone_row_parts(const Weight& key, const Weight& value) const;
  static gpu::Pair take_pair(Scratch& scratch, int64_t cols);
  void time_mix_row(const Batch& batch, const TimeMix7& att, bool first_block, Tensor x,
                    const Block7Work& work, const Block7State& state);
  void channel_mix_row(const Batch& batch, const ChannelMix7& ffn, Tensor x, StateField ffn_shift,
                       Collective* ranks);

  const gpu::OpenDevice& gpu_;
};

// The islands of steps with deltas. Stages with fused GEMMs run as the default islands, whose every product
// is one call of Ops::linear, which adds the deltas.
class GpuSplitIslands7 final : public GpuIslands7 {
 public:
  using GpuIslands7::GpuIslands7;

  void project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
               Tensor v_first, const Projected7& p) override {
    Islands7::project(batch, att, mixed, first_block, v_first, p);
  }
  void leave(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y,
             Tensor pending) override {
    Islands7::leave(batch, att, p, y, pending);
  }
  void attend(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state, Tensor y,
              Tensor pending) override {
    Islands7::attend(batch, att, p, state, y, pending);
  }
  void time_mix(const Batch& batch, const TimeMix7& att, bool first_block, const Block7Work& work,
                StateField state) override {
    Islands7::time_mix(batch, att, first_block, work, state);
  }
  void channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                   Addend addend, StateField ffn_shift, Tensor pending) override {
    Islands7::channel_mix(batch, embedding, ffn, x, addend, ffn_shift, pending);
  }
  bool block(const Batch&, const Block7&, Tensor, const Block7Work&, const Block7State&) override {
    return false;
  }
};

}  // namespace fulmar
