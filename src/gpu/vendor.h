// The only file that includes the vendor's headers, but for the GEMM library's in linear_gemm.cpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif

#include <cstdint>

#include "tensor/dtype.h"

namespace fulmar::gpu {

constexpr int kWarp = 32;
constexpr unsigned kFullWarp = 0xffffffffu;

using Half = __half;
using BFloat = __nv_bfloat16;
using StreamHandle = cudaStream_t;

}  // namespace fulmar::gpu
