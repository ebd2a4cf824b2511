// Products of E4M3 weights by inputs quantised to E4M3 (W8A8), a scale a row, before wgmma or the GEMM
// library. Large batches are quantised and multiplied in chunks of rows whose codes fit the buffer.
#pragma once

#include <span>

#include "gpu/gemm/resources.h"
#include "gpu/gemm/sm90/fp8_inputs.h"

namespace fulmar::gpu {

// Returns how many rows of the products' inputs fit the buffer of codes at a time.
int64_t float8_room(const GemmResources&, const Queue&, GemmList);

struct Float8Quantising {
  int64_t room;               // rows of a chunk, by float8_room
  bool relu_squared = false;  // codes are of relu²(in)
};
// Quantises the products' inputs in one launch and returns their codes, which lie in `to`.
std::span<const Float8Input> quantise(const GemmResources&, const Queue&, GemmList, const Float8Quantising&,
                                      Float8Input (&to)[kMostGemms]);

// Runs products by the GEMM library, on relu²(in) if asked; by wgmma where the library lacks such a product.
void run_float8_by_library(const GemmResources&, const Queue&, GemmList, bool relu_squared = false);

}  // namespace fulmar::gpu
