// Kernels for steps at batch 1, where latency is all and accuracy costs nothing: vectors between them keep
// f32 precision, addends go directly to the residual stream, and weights are loaded before the previous
// kernel has finished (programmatic dependent launch).
#pragma once

#include <span>

#include "gpu/device/prefetch.h"
#include "gpu/gemm/gemv.h"
#include "ops/batch.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

// ---- enter_row.cu
struct RowMix {
  const float* mix = nullptr;  // f32 [C]; null: 0, i.e. z itself
  Pair out;
};
constexpr int kMostRowMixes = 6;
// Computes z = norm(x); out = lerp(z, carried, mix) for each mix; then carried = z. An empty carry is neither
// read nor written. x f32 [1, C].
void enter_row(const Queue&, const Batch&, const Norm&, Tensor x, StateField carry, std::span<const RowMix>,
               const Prefetch& = {});

// ---- attend_row7.cu
struct LowPairs7 {  // first halves of the low-rank paths, activations applied; [1, R] each
  Pair w, a, v, g;
};
struct RowValues7 {
  Tensor r, k, v;         // raw GEMM outputs, f32 [1, C]
  Tensor v_first;         // f32 [1, C]; written in the first block
  Tensor v_first_narrow;  // in the activation type, for blocks without these kernels
};
bool suits_attend_row7(const TimeMix7&, bool first_block);
struct AttendRow7 {
  const TimeMix7& att;
  bool first_block = false;
  const LowPairs7& lows;
  const RowValues7& values;
  StateField wkv;
  Pair y;
  RowNorm norm;  // fused into the GEMMs before, its shift still to be stored; empty: enter_row ran
};
// Computes y from raw GEMM outputs: second low-rank GEMMs, key preparation, recurrence, head norm, bonus and
// gate.
void attend_row7(const Queue&, const Batch&, const AttendRow7&, const Prefetch& = {});

// ---- ffn_row.cu: value @ relu²(key @ in), value stored transposed
// RWKV-6's gate: the result is multiplied by sigmoid(weight @ in), weight [C, C]. `out` [1, C]: working
// memory.
struct FfnRowGate {
  Tensor in;
  Weight weight;
  Tensor out;
};
struct FfnRow {
  Pair in;  // or computed from `norm` and `mix`, f32 [C]
  Weight key, value;
  FfnRowGate gate;
  RowNorm norm;
  const float* mix = nullptr;
};
// Returns the number of partial sums (one per block); 0: matrices not supported.
int64_t ffn_row_parts(const Weight& key, const Weight& value, int multiprocessors, const Weight& gate = {});
// Writes the partial sums to parts, f32 [ffn_row_parts, C].
void ffn_row(const Queue&, const FfnRow&, Tensor parts);
// Adds up the parts into `out` [1, C]: adds the sum to an f32 `out` if `adds`, else stores it; an `out` in
// the activation type gets the sum times sigmoid(gate.out).
void sum_parts(const Queue&, Tensor parts, Tensor out, const FfnRowGate& gate = {}, const RowNorm& made = {},
               bool adds = true);

}  // namespace fulmar::gpu
