// Packs quantised matrices on the device, from the order of their files into the one that kernels read
// (layout/packed.h) (layout/pack.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/layout/packed.h"

namespace fulmar::gpu {

// Packs the rows [first, first + rows) of `weight` into weight.data, which holds packed_parts(...).bytes.
// `source` has these rows in the order of the file. `first` is a multiple of 16, and so is `rows` unless they
// are the last. Does not touch scales beside the codes.
void pack_rows(const Queue&, const void* source, int64_t first, int64_t rows, const Weight& weight);

}  // namespace fulmar::gpu
