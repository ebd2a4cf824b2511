// Independent products of more rows than linear_rows takes, in one launch: too small one by one to fill the
// GPU. Blocks take a tile of outputs and rows and a slice of the inputs (split-K); the last one of a tile
// adds up the slices in order.
#include "gpu/products/tiles_kernel.h"

namespace fulmar::gpu {

TilePlan plan_tiles(ProductList products, int multiprocessors, bool fixed_order) {
  TilePlan plan;
  with_tile(products.front().in.rows, fixed_order, [&](auto shape) {
    plan = plan_tiles_of<decltype(shape)>(products, multiprocessors, fixed_order);
  });
  return plan;
}

void linear_tiles(const Queue& queue, ProductList products, const TilePlan& plan, float* partial,
                  uint32_t* counters) {
  FULMAR_CHECK(products.size() <= kMostProducts);
  const Tensor in = products.front().in;
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    with_tile(in.rows, plan.fixed_order, [&](auto shape) {
      using Shape = decltype(shape);
      launch_tiles<T, Shape, PlainTileWeights<T, Shape>>(
          queue, products, plan, partial, counters,
          [](const Weight& weight) { return static_cast<const T*>(weight.data); });
    });
  });
}

}  // namespace fulmar::gpu
