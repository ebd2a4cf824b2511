// Runs a product by a kernel that takes one at a time, 16-bit weights only and has no epilogues.
#pragma once

#include <algorithm>

#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/layout/dequantise.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/resources.h"

namespace fulmar::gpu {

// Calls multiply(in, weight, out) with weights of the input's type, then applies the epilogue. Quantised
// weights are decoded to that type first, in chunks of outputs that fit the buffer.
template <class Multiply>
void run_alone(const GemmResources& resources, const Queue& queue, const Gemm& product, Multiply multiply) {
  const auto& [in, weight, out, epilogue] = product;
  if (weight.dtype == in.dtype) {
    multiply(in, weight, out);
    return apply_epilogue(queue, out, epilogue);
  }
  const Buffer& buffer = resources.decoded[queue.index];
  const int64_t row_bytes = weight.in * static_cast<int64_t>(size_of(in.dtype));
  // Whole tiles of packed outputs, which also keeps the library's alignment.
  const int64_t most = static_cast<int64_t>(buffer.bytes()) / row_bytes / kPackedOuts * kPackedOuts;
  FULMAR_CHECK(most > 0, "no room was made for decoded weights");
  const WeightLayout layout = weight.by_input() ? WeightLayout::columns : WeightLayout::rows;
  for (int64_t first = 0; first < weight.out; first += most) {
    const int64_t outs = std::min(most, weight.out - first);
    dequantise(queue, weight, first, outs, buffer.data(), in.dtype);
    const Weight decoded{in.dtype, outs, weight.in, buffer.data(), layout};
    multiply(in, decoded, out.slice_cols(first, outs));
  }
  apply_epilogue(queue, out, epilogue);
}

}  // namespace fulmar::gpu
