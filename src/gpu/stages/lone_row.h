// Kernels for a step of one row, where latency is all and accuracy costs nothing: between them vectors keep
// what f32 has, the residual stream takes its addends at once, and weights are on their way before the kernel
// in front has finished (programmatic dependent launch).
#pragma once

#include <span>

#include "gpu/device/prefetch.h"
#include "gpu/gemm/gemv.h"
#include "ops/batch.h"

namespace fulmar::gpu {

// ---- enter_row.cu
struct RowMix {
  const float* mix = nullptr;  // f32 [C]; null: 0, which gives z itself
  Pair out;
};
constexpr int kMostRowMixes = 6;
// z = norm(x); out = lerp(z, carried, mix) for each mix; carried <- z. An empty carry is neither read nor
// written. x f32 [1, C].
void enter_row(const Queue&, const Batch&, const Norm&, Tensor x, StateField carry, std::span<const RowMix>,
               const Prefetch& = {});

// ---- attend_row7.cu
struct LowPairs7 {  // first halves of the low-rank paths, activations applied; [1, R] each
  Pair w, a, v, g;
};
struct RowValues7 {
  Tensor r, k, v;         // raw products, f32 [1, C]
  Tensor v_first;         // f32 [1, C]; written in the first block
  Tensor v_first_narrow;  // the same in the activation type, for blocks that go another way
};
bool suits_attend_row7(const TimeMix7&, bool first_block);
// From raw products to what the output product takes: second halves of the low-rank paths, key preparation,
// recurrence and head end.
void attend_row7(const Queue&, const Batch&, const TimeMix7&, bool first_block, const LowPairs7&,
                 const RowValues7&, StateField wkv, const Pair& y, const Prefetch& = {},
                 const RowNorm& made = {});

// ---- ffn_row.cu: value @ relu²(key @ in), value stored transposed
// RWKV-6's gate, [C, C] as `weight`: the result is multiplied by sigmoid(weight @ in). `out` [1, C]: working
// memory.
struct FfnRowGate {
  Tensor in;
  Weight weight;
  Tensor out;
};
struct FfnRow {
  Pair in;  // or made from `norm` and `mix`, f32 [C]
  Weight key, value;
  FfnRowGate gate;
  RowNorm norm;
  const float* mix = nullptr;
};
// In how many parts the result is found, by a block each; 0: these matrices do not suit.
int64_t ffn_row_parts(const Weight& key, const Weight& value, int multiprocessors, const Weight& gate = {});
// parts, f32 [ffn_row_parts, C]: their sum is the result.
void ffn_row(const Queue&, const FfnRow&, Tensor parts);
// `out` [1, C]: f32, to which their sum is added or, where `adds` is false, which it becomes; or of the
// activation type, which it becomes, times sigmoid(gate.out).
void sum_parts(const Queue&, Tensor parts, Tensor out, const FfnRowGate& gate = {}, const RowNorm& made = {},
               bool adds = true);

}  // namespace fulmar::gpu
