// Matrices brought into the type and orientation that kernels want, on the device (import.cu).
#pragma once

#include "gpu/device/device.h"

namespace fulmar::gpu {

// Whether this program was compiled for the current device.
bool has_code_here();

// Element (i, j) of [rows, cols] lies at i * row_stride + j * col_stride elements, on both sides; types f32,
// f16, bf16. *overflow becomes 1 where a finite number does not fit.
void import_matrix(const Queue&, const void* source, DType from, int64_t rows, int64_t cols,
                   int64_t row_stride, int64_t col_stride, void* target, DType to, int64_t target_row_stride,
                   int64_t target_col_stride, uint32_t* overflow);

}  // namespace fulmar::gpu
