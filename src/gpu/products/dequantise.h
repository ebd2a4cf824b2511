// Weights of other formats decoded to 16 bits on the device, for products that no kernel computes from the
// codes themselves: one decoder per format (dequantise.cu).
#pragma once

#include "gpu/device/device.h"
#include "tensor/format.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

// Whether codes of this format may lie on the device as they are stored, since there is a decoder.
bool has_decoder(DType);

// Rows [first, first + rows) of a weight [out, in] that is not transposed, to f16 or bf16 [rows, in]; what
// lies beyond the largest f16 becomes that. The reference is decode_row of tensor/quantise.h.
void dequantise(const Queue&, const Weight&, int64_t first, int64_t rows, void* target, DType to);

}  // namespace fulmar::gpu
