// What a backend computes of RWKV-7 and RWKV-7a: primitives that it must write, and islands that it may
// override.
//
// An island is one fused stage of a block. Its default body (islands.cpp) composes primitives, those of Ops
// and those here, and is the specification; an override is an optimisation of it and is tested against it.
// Islands are cut at the residual add: each that reads the residual stream first absorbs the pending addend,
// so every useful fusion lies inside one. Shape and weight kind are decided inside an island or primitive,
// never in the model files.
#pragma once

#include <array>
#include <span>

#include "ops/batch.h"
#include "ops/ops.h"
#include "ops/state_field.h"
#include "rwkv7/weights.h"

namespace fulmar {

// One block of RWKV-7, its fields of the state, and working memory: mixed and pending [rows, C], the rest
// [rows, A], in the activation type. v_first holds block 0's values for the later blocks; v_first_wide, f32
// [1, A], the same for backends that keep f32 at batch 1, or empty.
struct Block7 {
  const TimeMix7& att;
  const ChannelMix7& ffn;
  bool first;
};
struct Block7State {
  StateField att_shift, wkv, ffn_shift;
};
struct Block7Work {
  std::array<Tensor, 6> mixed;
  Tensor v_first, v_first_wide;
  Projected7 p;
  Tensor y, pending;
  Collective* ranks = nullptr;  // that share the block; null: not split
};

// Tensors are [rows, C] in the activation type unless said otherwise; outputs never overlap inputs unless the
// comment says so.
class Islands7 {
 public:
  explicit Islands7(Ops& ops) : ops_(ops) {}
  virtual ~Islands7() = default;
  Islands7(const Islands7&) = delete;
  Islands7& operator=(const Islands7&) = delete;

  // ---- primitives

  // Computes kk = k * k_k normalised per head (lower bound of the norm 1e-12); then k *= 1 + (alpha - 1) *
  // k_a, in place
  virtual void key_prepare(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) = 0;
  // Computes the recurrence per head, rows of a sequence in order; state in place; y [rows, C]
  virtual void wkv(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                   Tensor y) = 0;
  // Computes y += (sum over the head of r * k * r_k) * v, in place
  virtual void bonus(const TimeMix7& att, const Projected7& p, Tensor y) = 0;
  // Computes RWKV-7a's scale [rows, F] = ((z @ s1^T) @ E) @ s2^T + s0, E [D, D] from the token's id and
  // normed embedding
  virtual void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                          Tensor scale) = 0;

  // ---- islands
  //
  // x is the residual stream; `pending` is the previous island's output, not yet added to it (empty:
  // nothing).

  // Computes x += pending; z = norm(x); mixed[i] = lerp(z, shifted z, mix row i) for r w k v a g
  virtual void enter(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
                     std::span<const Tensor, 6> mixed);
  // Computes the projections, low-rank paths, value residual and key preparation. In block 0 v_first <- v.
  virtual void project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                       bool first_block, Tensor v_first, const Projected7& p);
  virtual void recur(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                     Tensor y);
  // Computes pending = ((head_norm(y) + bonus) * g) @ output^T; overwrites y
  virtual void leave(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending);
  // Runs recur, then leave; y [rows, C] is working memory. For backends that fuse both.
  virtual void attend(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                      Tensor y, Tensor pending);
  // Runs project, then attend, on work.mixed, into work.pending. For backends that fuse parts of both.
  virtual void time_mix(const Batch& batch, const TimeMix7& att, bool first_block, const Block7Work& work,
                        StateField state);
  // Computes x += addend; pending = relu²(lerp(z) @ key^T) [* deep embed] @ value^T. `pending` may alias
  // `addend`, unless ranks have addends, and `addend` may be empty.
  virtual void channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                           Addend addend, StateField ffn_shift, Tensor pending);

  // Runs a whole block at once where the backend has fused kernels for such a batch: enter, time_mix and
  // channel_mix with nothing pending before, and every output added to x. Returns false, having done nothing,
  // where the islands have to run.
  virtual bool block(const Batch& batch, const Block7& block, Tensor x, const Block7Work& work,
                     const Block7State& state) {
    (void)batch, (void)block, (void)x, (void)work, (void)state;
    return false;
  }

 protected:
  using Scratch = Ops::Scratch;

  Ops& ops_;
};

}  // namespace fulmar
