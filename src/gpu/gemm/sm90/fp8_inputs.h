// Quantises inputs of E4M3 by E4M3 products (W8A8) dynamically, with a scale for each row.
#pragma once

#include <span>

#include "gpu/device/device.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

constexpr int64_t kMostFloat8Inputs = 32768;  // of a row

// A batch to quantise: codes = x / scales, rounded to nearest; scales = largest magnitude of the row / 448,
// or 0 for a row of zeros. x = in, or relu²(in).
struct Float8Input {
  Tensor in;      // [rows, K] f16 or bf16, 16-byte aligned rows; K <= kMostFloat8Inputs, a multiple of 8
  Tensor codes;   // [rows, K] without gaps
  float* scales;  // [rows]
  bool relu_squared = false;
};
constexpr size_t kMostFloat8Together = 8;
// Quantises all inputs in one launch; they have equal rows and type.
void quantise_inputs(const Queue&, std::span<const Float8Input>);

}  // namespace fulmar::gpu
