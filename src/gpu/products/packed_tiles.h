// Products of nine rows and more multiplied from packed codes: the tiles of tiles.h, with codes widened in
// registers (packed_tiles.cu).
#pragma once

#include "gpu/products/packed.h"
#include "gpu/products/tiles.h"

namespace fulmar::gpu {

TilePlan plan_packed_tiles(ProductList, int multiprocessors, bool fixed_order = false);

// Products of f16 inputs, equal row count, input width and format, packed as fragments; outputs f32 or f16
// and a multiple of 4 wide, inputs in 16-byte aligned rows. partial and counters as
// in linear_tiles.
void linear_packed_tiles(const Queue&, ProductList, const TilePlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
