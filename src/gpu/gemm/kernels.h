// All kernels that multiply weights, and which of them takes some products: rules over their number, rows and
// shape, and the device. Pure.
//
// A new kernel is a file that defines it (kernel.h), a line in this list and its rules (kernels.cpp).
#pragma once

#include <cstdint>

#include "gpu/device/step_shape.h"
#include "gpu/gemm/gemm.h"
#include "gpu/gemm/kernel.h"

namespace fulmar::gpu {

extern const Kernel kSparseKernel;      // rows of the weight that meet zeros are skipped (sparse.cu)
extern const Kernel kGemvKernel;        // a stream over the weights for one row (gemv.cu)
extern const Kernel kSkinnyKernel;      // weights straight to fragments (skinny.cu)
extern const Kernel kSparseQKernel;     // as kSparseKernel, from packed codes (sparse_q.cu)
extern const Kernel kSkinnyQKernel;     // as kGemvKernel and kSkinnyKernel (skinny_q.cu)
extern const Kernel kMmaQKernel;        // as kMmaKernel (mma_q.cu)
extern const Kernel kWgmmaQKernel;      // as kWgmmaKernel (sm90/wgmma_q.cu)
extern const Kernel kSimtKernel;        // as kSkinnyKernel, by dot products (simt.cu)
extern const Kernel kWgmmaKernel;       // TMA and wgmma in one launch (sm90/wgmma.cu)
extern const Kernel kMmaKernel;         // split-K over tiles in one launch (mma.cu)
extern const Kernel kWgmmaFp8Kernel;    // as kWgmmaKernel, E4M3 by E4M3 (sm90/wgmma_fp8.cu)
extern const Kernel kLibraryFp8Kernel;  // E4M3 by E4M3 by the GEMM library (fp8.cpp)
extern const Kernel kNaiveKernel;       // one product after the other, whatever the operands (naive.cu)
extern const Kernel kLibraryKernel;     // the same by the GEMM library, where there is one (library.cpp)

constexpr int64_t kMostRows = 65536;    // of a step
constexpr int64_t kMostSkinnyRows = 8;  // of kernels of few rows
constexpr int64_t kMostWgmmaFp8Rows = 1024;

// Returns the kernel of products that are computed together: in one launch, if it is `grouped`.
const Kernel* choose_kernel(GemmList, const GemmDevice&);
// Returns the kernel of a product on a side queue, where those that share working memory may not run.
const Kernel* choose_side_kernel(const Gemm&);

}  // namespace fulmar::gpu
