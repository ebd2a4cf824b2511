// Products of E4M3 weights by inputs that become E4M3 (W8A8): inputs are quantised by row, in one launch, in
// front of wgmma or of the GEMM library; of many rows so many at a time as their codes find room.
#pragma once

#include <span>

#include "gpu/gemm/resources.h"
#include "gpu/gemm/sm90/fp8_inputs.h"

namespace fulmar::gpu {

// Returns how many rows of the products' inputs find room as codes at a time.
int64_t float8_room(const GemmResources&, const Queue&, GemmList);

struct Float8Quantising {
  int64_t room;               // of float8_room
  bool relu_squared = false;  // codes are of relu²(in)
};
// Returns the products' inputs as codes, each of which lies in `to`.
std::span<const Float8Input> quantise(const GemmResources&, const Queue&, GemmList, const Float8Quantising&,
                                      Float8Input (&to)[kMostGemms]);

// By the GEMM library, of relu²(in) if asked. What the library has no product for goes by wgmma.
void run_float8_by_library(const GemmResources&, const Queue&, GemmList, bool relu_squared = false);

}  // namespace fulmar::gpu
