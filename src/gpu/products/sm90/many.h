// A product of whole prompts on GPUs of compute capability 9.0, relu² in its epilogue (many.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

// Epilogue relu_squared; operands as suits_rows wants them, a multiple of 8 outputs.
void linear_many(const Queue&, const Product&, int multiprocessors);

}  // namespace fulmar::gpu
