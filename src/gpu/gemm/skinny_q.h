// Products of one to eight rows, or of a lone row held as pairs, multiplied from packed codes: as many blocks
// as run at once stream equal shares of all matrices (skinny_q.cu).
#pragma once

#include <span>

#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemv.h"
#include "gpu/gemm/layout/packed.h"

namespace fulmar::gpu {

constexpr int64_t kMostSkinnyQRows = 8;

// Whether the kernel takes a matrix with so many rows of inputs: packed as fragments, and the inputs have
// room in shared memory.
bool suits_skinny_q(const Weight& weight, int64_t rows);

// Independent products of one format and equal K in one launch. Inputs of 16-byte aligned rows; with
// remainders a lone row's.
void launch_skinny_q(const Queue&, std::span<const Gemv>, const LaunchShare&);

}  // namespace fulmar::gpu
