// out = in @ weight^T for any shape, stride and alignment; slow (naive.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

// Enqueues a product of an f16 or bf16 weight, transposed or not; out [rows, outs] of the activation type or
// f32. The epilogue is not applied.
void launch_naive(const Queue&, Tensor in, const Weight& weight, Tensor out);

}  // namespace fulmar::gpu
