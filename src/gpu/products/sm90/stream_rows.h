// Products of two to eight rows on compute capability 9.0, every weight read once, by bulk copies that never
// pause (stream.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

// Operands as suits_rows wants them, at most eight rows, K a multiple of 64 up to 4,096. When it pays is
// choice.h's business.
bool suits_stream(Tensor in, const Weight& weight);

// Independent products of equal row count and K in one launch; any out width, f32 or activation type.
void linear_stream(const Queue&, ProductList, int multiprocessors);

}  // namespace fulmar::gpu
