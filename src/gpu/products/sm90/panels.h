// Products of any number of rows on GPUs of compute capability 9.0: operands by TMA into a ring in shared
// memory, multiplied by wgmma; warp specialisation, stream-K where tiles are few (panels.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

constexpr int64_t kPanelShapeCount = 8, kPackedShapeCount = 5;
struct PanelPlan {
  int64_t shape = 0;       // of the tiles, of kPanelShapeCount; which one is panels.cu's business
  int64_t steps_each = 0;  // of a block (stream-K); 0: whole tiles
  int64_t tiles = 0, blocks = 0;
  size_t partial_bytes = 0;
  int64_t filled = 0;  // percent of what all multiprocessors compute meanwhile that is asked for
};
// `fixed_order`: whole tiles alone, so that every output is one sum over its inputs in their order, whatever
// the number of rows and the tile's shape.
PanelPlan plan_panels(ProductList, int multiprocessors, bool fixed_order = false);

// Products of equal row count, operands as suits_rows wants them, outputs in the activation type or f32
// and a multiple of 4 wide. partial: plan.partial_bytes; counters, where steps_each is not 0: zeroed once,
// [plan.tiles], zero again afterwards.
void linear_panels(const Queue&, ProductList, const PanelPlan&, float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
