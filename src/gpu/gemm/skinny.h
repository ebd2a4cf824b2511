// Skinny GEMM: products of one to eight rows, every weight read once, straight from memory
// into matrix fragments (skinny.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

// Returns whether 16-byte loads reach the operands: 16-bit weights [outs, K] in row order, K and strides
// multiples of 8 elements, addresses of 16 bytes. When the kernel pays is for kernels.h to decide.
bool suits_skinny(Tensor in, const Weight& weight);

// Enqueues independent products of equal row count in one launch; any out width, f32 or activation type.
void launch_skinny(const Queue&, GemmList, LaunchPlace = LaunchPlace::alone);

}  // namespace fulmar::gpu
