// Products of one to eight rows by dot products, every weight read once, for GPUs without the fragments of
// rows.h (dot_rows.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

constexpr int64_t kMostDotRows = 8;

// Independent products of equal row count, at most kMostDotRows, in one launch; operands that suits_rows is
// true of, any out width, f32 or activation type.
void linear_dot_rows(const Queue&, ProductList);

}  // namespace fulmar::gpu
