// Products of one to eight rows, or of a lone row held as pairs, multiplied from packed codes: as many blocks
// as run at once stream equal shares of all matrices (packed_rows.cu).
#pragma once

#include <span>

#include "gpu/device/launch_place.h"
#include "gpu/products/packed.h"
#include "gpu/products/row.h"

namespace fulmar::gpu {

constexpr int64_t kMostPackedRows = 8;

// Whether the kernel takes a matrix with so many rows of inputs: packed as fragments, and the inputs have
// room in shared memory.
bool suits_packed_rows(const Weight& weight, int64_t rows);

// Independent products of one format and equal K in one launch. Inputs of 16-byte aligned rows; with
// remainders a lone row's.
void linear_packed_rows(const Queue&, std::span<const RowProduct>, const LaunchShare&);

}  // namespace fulmar::gpu
