// Decodes quantised weights to 16 bits on the device, for products that no kernel computes from the codes:
// matrices in the order of their files (layout/dequantise.cu) and packed ones (layout/unpack.cu).
#pragma once

#include "gpu/device/device.h"
#include "tensor/format.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

// Decodes the outputs [first, first + outs) of a weight to f16 or bf16: [outs, in], or [in, outs] of a weight
// packed transposed. `first` and `outs` are multiples of 16 or end with the matrix. Decodes in f32 and rounds
// once, to the bits of decode_row in tensor/quantise.h; beyond the largest f16 it saturates.
void dequantise(const Queue&, const Weight&, int64_t first, int64_t outs, void* target, DType to);

// Does the same for packed matrices (layout/packed.h).
void unpack(const Queue&, const Weight&, int64_t first, int64_t outs, void* target, DType to);

}  // namespace fulmar::gpu
