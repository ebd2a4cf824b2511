// Independent products of more rows than linear_rows takes, in one launch: too small one by one to fill the
// GPU. Blocks take a tile of outputs and rows and a slice of the inputs (split-K); the last one of a tile
// adds up the slices in order.
#include "gpu/products/tiles_kernel.h"

namespace fulmar::gpu {

namespace {

// Slices of a tile's inputs: at most so many, each of at least so many inputs; what a block costs besides,
// and each slice when a tile's are added up, in inputs.
constexpr int64_t kMostSlices = 16, kLeastSliceInputs = 256;
constexpr int64_t kBlockInputs = 192, kGatherInputs = 96;

}  // namespace

// As many slices as give the least work to the block that has most of it, of equals the fewest.
TilePlan plan_tiles(ProductList products, int multiprocessors) {
  const Product& any = products.front();
  const int64_t rows = any.in.rows, blocks_at_once = int64_t{multiprocessors} * kTileBlocksEach;
  TilePlan plan;
  with_tile(rows, [&](auto shape) {
    using Shape = decltype(shape);
    const int64_t stages = (any.weight.in + Shape::kStep - 1) / Shape::kStep;
    for (const Product& one : products) plan.tiles += out_tiles_of<Shape>(one) * row_tiles_of<Shape>(rows);
    int64_t least = 0;
    for (int64_t slices = 1; slices <= kMostSlices; slices++) {
      if (slices > 1 && slices * kLeastSliceInputs > any.weight.in) break;
      const int64_t steps = (stages + slices - 1) / slices;
      const int64_t waves = (plan.tiles * slices + blocks_at_once - 1) / blocks_at_once;
      const int64_t gather = slices > 1 ? slices * kGatherInputs : 0;
      const int64_t cost = waves * (steps * Shape::kStep + kBlockInputs) + gather;
      if (least != 0 && cost >= least) continue;
      least = cost;
      plan.steps = steps;
      plan.slices = (stages + steps - 1) / steps;
    }
    plan.partial_bytes =
        plan.slices > 1
            ? static_cast<size_t>(plan.tiles * plan.slices * Shape::kOuts * Shape::kRows) * sizeof(float)
            : 0;
  });
  return plan;
}

void linear_tiles(const Queue& queue, ProductList products, const TilePlan& plan, float* partial,
                  uint32_t* counters) {
  FULMAR_CHECK(products.size() <= kMostProducts);
  const Tensor in = products.front().in;
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    with_tile(in.rows, [&](auto shape) {
      using Shape = decltype(shape);
      launch_tiles<T, Shape, PlainTileWeights<T, Shape>>(
          queue, products, plan, partial, counters, 1.0f,
          [](const Weight& weight) { return static_cast<const T*>(weight.data); });
    });
  });
}

}  // namespace fulmar::gpu
