// Products of nine rows and more multiplied from packed codes: the tiles of tiles.h, with codes widened in
// registers (packed_tiles.cu).
#pragma once

#include "gpu/products/packed.h"
#include "gpu/products/tiles.h"

namespace fulmar::gpu {

// Products of equal row count, input width and format, packed as fragments; outputs f32 or of the activation
// type and a multiple of 4 wide, inputs in 16-byte aligned rows. plan: of plan_tiles; partial and counters as
// in linear_tiles.
void linear_packed_tiles(const Queue&, ProductList, const TilePlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
