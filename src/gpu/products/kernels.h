// All kernels that multiply weights, and which of them takes some products: rules over their number, rows and
// shape, and the device. Pure.
//
// A new kernel is a file that defines it (kernel.h), a line in this list and its rules (kernels.cpp).
#pragma once

#include <cstdint>

#include "gpu/device/step_shape.h"
#include "gpu/products/kernel.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

extern const Kernel kSparseKernel;      // rows of the weight that meet zeros are skipped (value.cu)
extern const Kernel kGemvKernel;        // a stream over the weights for one row (row.cu)
extern const Kernel kSkinnyKernel;      // weights straight to fragments (rows.cu)
extern const Kernel kSparseQKernel;     // as kSparseKernel, from packed codes (packed_value.cu)
extern const Kernel kSkinnyQKernel;     // as kGemvKernel and kSkinnyKernel (packed_rows.cu)
extern const Kernel kMmaQKernel;        // as kMmaKernel (packed_tiles.cu)
extern const Kernel kWgmmaQKernel;      // as kWgmmaKernel (sm90/packed_panels.cu)
extern const Kernel kSimtKernel;        // as kSkinnyKernel, by dot products (dot_rows.cu)
extern const Kernel kWgmmaKernel;       // TMA and wgmma in one launch (sm90/panels.cu)
extern const Kernel kMmaKernel;         // split-K over tiles in one launch (tiles.cu)
extern const Kernel kWgmmaFp8Kernel;    // as kWgmmaKernel, E4M3 by E4M3 (sm90/float8_panels.cu)
extern const Kernel kLibraryFp8Kernel;  // E4M3 by E4M3 by the GEMM library (float8.cpp)
extern const Kernel kNaiveKernel;       // one product after the other, whatever the operands (plain.cu)
extern const Kernel kLibraryKernel;     // the same by the GEMM library, where there is one (library.cpp)

constexpr int64_t kMostRows = 65536;  // of a step
constexpr int64_t kMostOwnRows = 8;   // of kernels of few rows
constexpr int64_t kMostFloat8PanelRows = 1024;

// Returns the kernel of products that are computed together: in one launch, if it is `grouped`.
const Kernel* choose_kernel(ProductList, const ProductDevice&);
// Returns the kernel of a product on a side queue, where those that share working memory may not run.
const Kernel* choose_side_kernel(const Product&);

}  // namespace fulmar::gpu
