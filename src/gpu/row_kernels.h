// Kernels for a step of one row, where latency is all and accuracy costs nothing: between them vectors keep
// what f32 has, the residual stream takes its addends at once, and weights are on their way before the kernel
// in front has finished. Nothing here allocates or waits.
#pragma once

#include "base/check.h"
#include "gpu/kernels.h"

namespace fulmar::gpu {

// One row of numbers, each held as two of the activation type (pair.h): both [1, C].
struct Pair {
  Tensor high, left;  // left empty: high is all there is
};

// The activation type that a matrix is multiplied in.
inline DType activation_of(const Weight& weight) {
  FULMAR_CHECK(weight.plain16());
  return weight.dtype;
}

// ---- enter_row.cu
struct RowMix {
  const float* mix = nullptr;  // f32 [C]; null: 0, which gives z itself
  Pair out;
};
constexpr int kMostRowMixes = 6;
// z = norm(x); out = lerp(z, carried, mix) for each mix; carried <- z. An empty carry is neither read nor
// written. x f32 [1, C].
void enter_row(const Queue&, const Batch&, const Norm&, Tensor x, StateField carry, std::span<const RowMix>,
               const Ahead& = {});

// Where rows are at most so wide, the kernels below can make their inputs themselves, each block for itself,
// in place of enter_row: in = lerp(norm(x), carried, mix). The norm goes to z, which the kernel that is given
// the same RowNorm as `made` carries on.
constexpr int64_t kMostMadeCols = 2048;
struct RowNorm {
  const Norm* norm = nullptr;  // null: inputs are stored
  Tensor x;                    // f32 [1, C]
  StateField carry;
  const int32_t* slot = nullptr;
  Tensor z;  // f32 [1, C]
};

// ---- linear_row.cu: products of one row, every weight read once
struct RowProduct {
  Pair in;  // [1, K]; 16-byte aligned
  Weight weight;
  Pair out;  // of any type where `left` is empty
  Epilogue epilogue = Epilogue::none;
  bool adds = false;           // out, f32, += the product
  const float* mix = nullptr;  // [K], where inputs are made
};
bool suits_linear_row(const Weight& weight);
bool suits_made_inputs(std::span<const RowProduct>, int multiprocessors);
// Independent products of equal K in one launch.
void linear_row(const Queue&, std::span<const RowProduct>, int multiprocessors, const RowNorm& = {});

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
                 const RowValues7&, StateField wkv, const Pair& y, const Ahead& = {},
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
// `out` [1, C]: f32, to which their sum is added, or of the activation type, which it becomes, times
// sigmoid(gate.out).
void sum_parts(const Queue&, Tensor parts, Tensor out, const FfnRowGate& gate = {}, const RowNorm& made = {});

}  // namespace fulmar::gpu
