// GEMV: products of one row, every weight read once by a stream of 16-byte loads that does not pause between
// tiles (gemv.cu). A row's vectors are pairs of 16-bit numbers, so nothing is lost between kernels.
#pragma once

#include <span>

#include "base/check.h"
#include "gpu/device/device.h"
#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemm.h"
#include "ops/args.h"
#include "ops/state_field.h"

namespace fulmar::gpu {

// One row of numbers, each held as two of the activation type (device/pair.h): both [1, C].
struct Pair {
  Tensor high, remainder;  // remainder empty: high is all there is
};

// Returns the activation type that a 16-bit weight is multiplied in.
inline DType activation_of(const Weight& weight) {
  FULMAR_CHECK(weight.plain16());
  return weight.dtype;
}

// Where rows are at most so wide, kernels can make their inputs themselves, each block for itself:
// in = lerp(norm(x), carried, mix). The norm goes to z, which the kernel that is given the same RowNorm as
// `made` carries on.
constexpr int64_t kMostMadeCols = 2048;
struct RowNorm {
  const Norm* norm = nullptr;  // null: inputs are stored
  Tensor x;                    // f32 [1, C]
  StateField carry;
  const int32_t* slot = nullptr;
  Tensor z;  // f32 [1, C]
};

struct Gemv {
  Pair in;  // [1, K]; 16-byte aligned
  Weight weight;
  Pair out;  // of any type where `remainder` is empty
  Epilogue epilogue = Epilogue::none;
  bool adds = false;           // out, f32, += the product
  const float* mix = nullptr;  // f32 [K], where inputs are made
};

bool suits_gemv(const Weight& weight);  // 16-bit [outs, K], 16-byte aligned; K a multiple of 64 up to 16,384
// Returns whether `blocks` concurrent blocks can make their own inputs (RowNorm).
bool suits_made_inputs(std::span<const Gemv>, int64_t blocks);

// Enqueues independent products of equal K in one launch.
void launch_gemv(const Queue&, std::span<const Gemv>, const LaunchShare&, const RowNorm& = {});

}  // namespace fulmar::gpu
