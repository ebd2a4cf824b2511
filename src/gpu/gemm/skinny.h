// Products of one to eight rows, every weight read once, straight from memory into matrix fragments
// (skinny.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

// Whether 16-byte loads reach operands: 16-bit weights [outs, K] as they are, K and strides multiples of 8
// elements, addresses of 16 bytes. When it pays is kernels.h's business.
bool suits_skinny(Tensor in, const Weight& weight);

// Independent products of equal row count in one launch; any out width, f32 or activation type.
void launch_skinny(const Queue&, GemmList, LaunchPlace = LaunchPlace::alone);

}  // namespace fulmar::gpu
