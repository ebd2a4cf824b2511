// Converts and transposes matrices on the device, for import (import.cu).
#pragma once

#include "gpu/device/device.h"

namespace fulmar::gpu {

// Returns whether this program has code for the current device.
bool has_code_here();

// Where the elements of a matrix lie: (i, j) at i * row_stride + j * col_stride, in elements.
template <class Byte>
struct Elements {
  Byte* data = nullptr;
  DType dtype = DType::f32;  // f32, f16 or bf16
  int64_t row_stride = 0, col_stride = 0;
};

// Copies [rows, cols], converting the type. Sets *overflow to 1 where a finite number becomes too large.
void import_matrix(const Queue&, int64_t rows, int64_t cols, const Elements<const void>& from,
                   const Elements<void>& to, uint32_t* overflow);

}  // namespace fulmar::gpu
