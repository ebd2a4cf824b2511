// All kernels that multiply weights, and the choice among them: rules over the number of products, their rows
// and shape, and the device. Pure.
//
// A new kernel is a file that defines it (kernel.h), a line in this list and its rules (kernels.cpp).
#pragma once

#include <cstdint>

#include "gpu/device/step_shape.h"
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/kernel.h"

namespace fulmar::gpu {

extern const Kernel kSparseKernel;      // weight rows whose inputs are all zero are not read (sparse.cu)
extern const Kernel kGemvKernel;        // GEMV: a stream over the weights for one row (gemv.cu)
extern const Kernel kSkinnyKernel;      // skinny GEMM: weights straight to fragments (skinny.cu)
extern const Kernel kSparseQKernel;     // as kSparseKernel, from packed codes (sparse_q.cu)
extern const Kernel kSkinnyQKernel;     // as kGemvKernel and kSkinnyKernel, from packed codes (skinny_q.cu)
extern const Kernel kMmaQKernel;        // as kMmaKernel, from packed codes (mma_q.cu)
extern const Kernel kWgmmaQKernel;      // as kWgmmaKernel, from packed codes (sm90/wgmma_q.cu)
extern const Kernel kSimtKernel;        // as kSkinnyKernel, by dot products (simt.cu)
extern const Kernel kWgmmaKernel;       // warp-specialised TMA and wgmma (sm90/wgmma.cu)
extern const Kernel kMmaKernel;         // mma.sync with split-K (mma.cu)
extern const Kernel kWgmmaFp8Kernel;    // as kWgmmaKernel, E4M3 by E4M3 (sm90/wgmma_fp8.cu)
extern const Kernel kLibraryFp8Kernel;  // E4M3 by E4M3 by the GEMM library (fp8.cpp)
extern const Kernel kNaiveKernel;       // one product after the other, whatever the operands (naive.cu)
extern const Kernel kLibraryKernel;     // one product after the other by the GEMM library (library.cpp)

constexpr int64_t kMostRows = 65536;    // of a step
constexpr int64_t kMostSkinnyRows = 8;  // of the skinny kernels
constexpr int64_t kMostWgmmaFp8Rows = 1024;

// Returns the kernel of products that are computed together: in one launch, if it is `grouped`.
const Kernel* choose_kernel(GemmList, const GemmDevice&);
// Returns the kernel of a product on a side queue, where kernels that share working memory may not run.
const Kernel* choose_side_kernel(const Gemm&);

}  // namespace fulmar::gpu
