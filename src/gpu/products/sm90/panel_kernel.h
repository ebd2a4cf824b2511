// The kernel of panels, for operands of any kind and any epilogue: `Finish` gets whole tiles (send) or
// vectors of four outputs (call operator) of f32 sums. Blocks that share a tile (stream-K) leave their sums
// in memory, and the last one of them adds these up in order.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "gpu/products/sm90/panel_product.h"
#include "gpu/products/sm90/panels.h"
#include "gpu/products/split_k.h"

namespace fulmar::gpu {

// Where an unfinished tile's sums lie: a block's first place is for the tile that it begins in.
template <class Shape>
__device__ __forceinline__ float4* partial_of(const Panels& panels, int block, int tile_begin) {
  const int place = 2 * block + (block * panels.steps_each < tile_begin ? 1 : 0);
  return reinterpret_cast<float4*>(panels.partial + place * Shape::kPartial);
}

// Stores the segment's sums and tells whether the tile's other ones were all there already. All multiplying
// threads call.
template <class Shape>
__device__ __forceinline__ bool leave_segment(const Panels& panels, const Segment& at, int blocks,
                                              const PanelSums<Shape>& sum, int group, float* chunk) {
  float4* own = partial_of<Shape>(panels, blockIdx.x, at.begin);
  for_each_subtile<Shape>(sum, group, chunk, [&](int subtile, const SubtileVectors& v) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      store4(
          reinterpret_cast<float*>(&own[(subtile * kChunkVectors + i) * Shape::kMultiplying + threadIdx.x]),
          v.of[i]);
    }
  });
  return arrives_last(&panels.counter[at.tile], static_cast<uint32_t>(blocks),
                      [] { named_barrier_sync(1 + Shape::kGroups, Shape::kMultiplying); });
}

template <class T, class Shape, class Finish>
__device__ __forceinline__ void end_segment(const Panels& panels, const Finish& finish, const Segment& at,
                                            const PanelSums<Shape>& sum, int group, float* chunk) {
  const PanelProduct& product = panels.each[at.product];
  const auto end = [&](int, SubtileVectors v) {
    v.row += at.first_row, v.out += at.first_out;
    if (v.out < product.outs) finish(at.product, v, panels.rows);
  };
  const bool whole = at.steps == product.steps;
  if (whole && finish.template send<Shape>(product, at, sum, group, chunk)) return;
  if (threadIdx.x % kGroupThreads == 0) bulk_wait_read<0>();  // until here the chunk may be on its way
  if (whole) return for_each_subtile<Shape>(sum, group, chunk, end);
  const int first_block = at.begin / panels.steps_each,
            last_block = (at.begin + product.steps - 1) / panels.steps_each;
  if (!leave_segment<Shape>(panels, at, last_block - first_block + 1, sum, group, chunk)) return;
#pragma unroll 1
  for (int subtile = 0; subtile < Shape::kSubtiles; subtile++) {
    SubtileVectors total = OutputsOf<Shape>::vectors(subtile, group);
    for (int block = first_block; block <= last_block; block++) {
      const float4* from = partial_of<Shape>(panels, block, at.begin) +
                           subtile * kChunkVectors * Shape::kMultiplying + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kChunkVectors; i++) {
        const float4 v = __ldcg(&from[i * Shape::kMultiplying]);
        Float4& to = total.of[i];
        to.x[0] += v.x, to.x[1] += v.y, to.x[2] += v.z, to.x[3] += v.w;
      }
    }
    end(subtile, total);
  }
}

template <class T, class Shape, class Operands, class Finish>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    panels_kernel(const __grid_constant__ Panels panels, const __grid_constant__ Operands operands,
                  const __grid_constant__ Finish finish) {
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[Shape::kStages], empty[Shape::kStages];
  Ring<Shape> ring{align_ring(shared), full, empty};
  pdl_launch_next();
  if (threadIdx.x == 0) prepare_ring(ring, Operands::kFilling, Shape::kMultiplying / kWarp);
  operands.prepare();
  __syncthreads();
  const int group = threadIdx.x / kGroupThreads;
  if (group == Shape::kGroups) {
    if constexpr (Shape::kGroups > 1) setmaxnreg_dec<Operands::kBringRegisters>();
    operands.bring(panels, ring);
  } else {
    if constexpr (Shape::kGroups > 1) setmaxnreg_inc<Operands::kMultiplyRegisters>();
    float* chunk = reinterpret_cast<float*>(ring.stages + Shape::kStages * Shape::kStageBytes) +
                   group * kChunkRows * kChunkStride;
    typename Operands::Consumer consumer(operands, group);
    Walk<Shape> walk(panels);
    Segment at;
    bool more = walk.next(at);
    if (more) consumer.begin(at);
    pdl_wait();
    while (more) {
      PanelSums<Shape> sum;
      consumer.multiply(at, ring, sum);
      const Segment done = at;
      more = walk.next(at);
      if (more) consumer.begin(at);
      end_segment<T, Shape>(panels, finish, done, sum, group, chunk);
    }
    if (threadIdx.x % kGroupThreads == 0) bulk_wait_written();
  }
}

// ---- on the host

template <class Shape>
int64_t panel_tiles_of(const Product& one) {
  return (one.weight.out + Shape::kOuts - 1) / Shape::kOuts *
         ((one.in.rows + Shape::kRows - 1) / Shape::kRows);
}
template <class Shape>
int64_t steps_of(const Product& one) {
  return (one.weight.in + Shape::kStepInputs - 1) / Shape::kStepInputs;
}

template <class Shape>
Panels panels_of(ProductList list) {
  FULMAR_CHECK(list.size() <= kMostProducts);
  Panels panels{};
  panels.rows = static_cast<int>(list.front().in.rows);
  panels.row_tiles = (panels.rows + Shape::kRows - 1) / Shape::kRows;
  for (const Product& one : list) {
    FULMAR_CHECK(one.in.rows == panels.rows && one.weight.out % 4 == 0);
    const int steps = static_cast<int>(steps_of<Shape>(one)),
              tiles = static_cast<int>(panel_tiles_of<Shape>(one));
    panels.each[panels.count++] = {{},    false,        static_cast<int>(one.weight.out),
                                   steps, panels.steps, panels.tiles};
    panels.steps += tiles * steps;
    panels.tiles += tiles;
  }
  return panels;
}

template <class Shapes>
constexpr int64_t shapes_of(Shapes&& for_each_shape) {
  int64_t count = 0;
  for_each_shape([&](auto, int64_t) { count++; });
  return count;
}

// The shape that should be through first, of those that for_each_shape(f) names by f(shape, what a step of
// one of its tiles takes, in hundredths of a microsecond): whole tiles one after the other, or as many steps
// for each block with sums of tiles added up afterwards, which costs as much as steps_per_subtile for each
// subtile. In a fixed order only whole tiles, and for these shapes of one group, too: small tiles are then
// all that spreads a small matrix over the GPU.
template <class Shapes>
PanelPlan plan_shapes(ProductList products, int multiprocessors, int64_t steps_per_subtile, bool fixed_order,
                      Shapes&& for_each_shape) {
  PanelPlan best;
  int64_t least = 0, shape_number = 0;
  for_each_shape([&](auto shape, int64_t step_cost) {
    using Shape = decltype(shape);
    const int64_t number = shape_number++;
    if (Shape::kGroups == 1 && !fixed_order) return;
    int64_t tiles = 0, steps = 0, longest = 0, numbers = 0;
    for (const Product& one : products) {
      numbers += one.in.rows * one.weight.out * steps_of<Shape>(one);
      tiles += panel_tiles_of<Shape>(one);
      steps += panel_tiles_of<Shape>(one) * steps_of<Shape>(one);
      longest = std::max(longest, steps_of<Shape>(one));
    }
    const int64_t rounds = (tiles + multiprocessors - 1) / multiprocessors;
    const int64_t steps_each = (steps + multiprocessors - 1) / multiprocessors;
    const auto consider = [&](int64_t cost, int64_t steps_of_each, const PanelPlan& plan) {
      if (least != 0 && cost >= least) return;
      least = cost;
      best = plan;
      best.filled = numbers * 100 / (steps_of_each * multiprocessors * Shape::kPartial);
    };
    consider(rounds * longest * step_cost, rounds * longest,
             {number, 0, tiles, std::min<int64_t>(tiles, multiprocessors), 0});
    if (fixed_order) return;
    const int64_t blocks = (steps + steps_each - 1) / steps_each;
    consider((steps_each + steps_per_subtile * Shape::kSubtiles) * step_cost, steps_each,
             {number, steps_each, tiles, blocks,
              static_cast<size_t>(2 * blocks * Shape::kPartial) * sizeof(float)});
  });
  return best;
}

// The plan's shape: f(shape, panels) with where unfinished sums go.
template <class Shapes, class F>
void with_planned_shape(ProductList products, const PanelPlan& plan, float* partial, uint32_t* counters,
                        Shapes&& for_each_shape, F&& f) {
  int64_t shape_number = 0;
  for_each_shape([&](auto shape, int64_t) {
    if (shape_number++ != plan.shape) return;
    Panels panels = panels_of<decltype(shape)>(products);
    panels.steps_each = static_cast<int>(plan.steps_each);
    panels.partial = partial;
    panels.counter = counters;
    f(shape, panels);
  });
}

template <class T, class Shape, class Operands, class Finish>
void launch_panels(const Queue& queue, const Panels& panels, const Operands& operands, const Finish& finish,
                   int64_t blocks) {
  const auto kernel = panels_kernel<T, Shape, Operands, Finish>;
  allow_shared(kernel, Shape::kBytes);
  launch(queue, kernel, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kThreads), Shape::kBytes, panels,
         operands, finish);
}

}  // namespace fulmar::gpu
