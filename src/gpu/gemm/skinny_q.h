// Skinny GEMM and GEMV from packed codes: one to eight rows, or one row held as pairs. As many blocks as run
// at once stream equal shares of all matrices (skinny_q.cu).
#pragma once

#include <span>

#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemv.h"
#include "gpu/gemm/layout/packed.h"

namespace fulmar::gpu {

constexpr int64_t kMostSkinnyQRows = 8;

// Returns whether the kernel takes this weight with `rows` rows of inputs: packed as fragments, and the
// inputs fit in shared memory.
bool suits_skinny_q(const Weight& weight, int64_t rows);

// Enqueues independent products of one format and equal K in one launch. Inputs in 16-byte aligned rows; with
// remainders, of one row.
void launch_skinny_q(const Queue&, std::span<const Gemv>, const LaunchShare&);

}  // namespace fulmar::gpu
