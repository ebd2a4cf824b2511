// The only file that includes the vendor's headers, but for the GEMM library's in products/gemm.cpp.
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

constexpr int kWarp = 32;  // threads
constexpr unsigned kFullWarp = 0xffffffffu;

using Half = __half;
using BFloat = __nv_bfloat16;
using StreamHandle = cudaStream_t;

#ifdef __CUDACC__
// In place of an instruction that a target lacks and that nothing else does: ends the program if it is ever
// reached, since results would be wrong.
__device__ __forceinline__ void no_such_instruction() { __trap(); }

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
#endif

}  // namespace fulmar::gpu
