// SIMT kernel: products of one to eight rows by dot products, every weight read once, for GPUs whose matrix
// fragments skinny.h does not know (simt.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

constexpr int64_t kMostSimtRows = 8;

// Enqueues independent products of equal row count, at most kMostSimtRows, in one launch; operands that
// suits_skinny is true of, any out width, f32 or activation type.
void launch_simt(const Queue&, GemmList);

}  // namespace fulmar::gpu
