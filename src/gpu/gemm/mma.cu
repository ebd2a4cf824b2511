// Independent products of more rows than launch_skinny takes, in one launch, because each alone is too small
// to fill the GPU. A block computes a tile of outputs and rows over one slice of the inputs (split-K); the
// last block of a tile adds up the slices in order.
#include "gpu/gemm/mma_kernel.h"

namespace fulmar::gpu {

MmaPlan plan_mma(GemmList products, int multiprocessors, bool fixed_order) {
  MmaPlan plan;
  with_tile(products.front().in.rows, fixed_order, [&](auto shape) {
    plan = plan_tiles_of<decltype(shape)>(products, multiprocessors, fixed_order);
  });
  return plan;
}

void launch_mma(const Queue& queue, GemmList products, const MmaPlan& plan, float* partial,
                uint32_t* counters) {
  FULMAR_CHECK(products.size() <= kMostGemms);
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
