// Quantised weights decoded to 16 bits on the device, for products that no kernel computes from the codes
// themselves: matrices as files store them (layout/dequantise.cu) and packed ones (layout/unpack.cu).
#pragma once

#include "gpu/device/device.h"
#include "tensor/format.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

// Outputs [first, first + outs) of a weight to f16 or bf16: [outs, in], or [in, outs] of one packed
// transposed. `first` and `outs` are multiples of 16 or end with the matrix. Decoded in f32 and rounded once,
// to the bits that decode_row of tensor/quantise.h gives; what lies beyond the largest f16 becomes that.
void dequantise(const Queue&, const Weight&, int64_t first, int64_t outs, void* target, DType to);

// The same for packed matrices (layout/packed.h).
void unpack(const Queue&, const Weight&, int64_t first, int64_t outs, void* target, DType to);

}  // namespace fulmar::gpu
