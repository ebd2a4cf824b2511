// Quantised matrices brought from the order of their files into the one that kernels read (layout/packed.h),
// on the device (layout/pack.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/layout/packed.h"

namespace fulmar::gpu {

// Rows [first, first + rows) of `weight` from `source`, where they lie as stored, into weight.data, which
// holds packed_parts(...).bytes. `first` is a multiple of 16, and so is `rows` unless they are the last.
// Scales beside the codes are not touched.
void pack_rows(const Queue&, const void* source, int64_t first, int64_t rows, const Weight& weight);

}  // namespace fulmar::gpu
