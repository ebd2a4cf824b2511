// Chooses the tile shape of the wgmma GEMM and how blocks share the tiles: pure, from measured
// times of a step of each shape.
#pragma once

#include <algorithm>

#include "gpu/gemm/sm90/wgmma.h"
#include "gpu/gemm/sm90/wgmma_product.h"

namespace fulmar::gpu {

template <class Shape>
int64_t panel_tiles_of(const Gemm& one) {
  return (one.weight.out + Shape::kOuts - 1) / Shape::kOuts *
         ((one.in.rows + Shape::kRows - 1) / Shape::kRows);
}
template <class Shape>
int64_t steps_of(const Gemm& one) {
  return (one.weight.in + Shape::kStepInputs - 1) / Shape::kStepInputs;
}

// True if blocks of a cluster may share a tile of this shape: the ring has room for the tile's sums.
template <class Shape>
constexpr bool kSplits = Shape::kGroups > 1;

// The least rows for which clusters pay. Below, tiles are so few that they take clusters of five blocks and
// more, whose shared memory was read too slowly.
constexpr int64_t kLeastClusterRows = 129;

// Returns the least time to read the weights, in hundredths of a microsecond at 4.55 TB/s.
inline int64_t reading_time(GemmList products) {
  size_t bytes = 0;
  for (const Gemm& one : products) bytes += one.weight.bytes();
  return static_cast<int64_t>(bytes) / 45'500;
}
// Returns the time to add up a cluster's tile, in hundredths of a microsecond: two cluster barriers, and each
// block reads every block's sums of its subtiles, at 25 bytes a nanosecond.
template <class Shape>
constexpr int64_t cluster_end(int64_t parts) {
  const int64_t own = (Shape::kSubtiles + parts - 1) / parts;
  const int64_t bytes = own * parts * Shape::kFinishing * kSubtileSums * static_cast<int64_t>(sizeof(float));
  return 400 + bytes * 4 / 1000;
}

// The work of some products cut into tiles of one shape.
struct ShapeWork {
  int64_t tiles = 0, steps = 0;       // of all products
  int64_t longest = 0, shortest = 0;  // steps of a tile
  int64_t numbers = 0;                // useful outputs x K steps, for the occupancy estimate
  int64_t traffic = 0;                // least time for all blocks' reads, in hundredths of a microsecond
};
template <class Shape>
ShapeWork shape_work(GemmList products) {
  constexpr int64_t kBytesPerUnit = 55'000;  // from the L2 cache, at 5.5 TB/s
  ShapeWork work;
  int64_t bytes = 0;
  for (const Gemm& one : products) {
    const int64_t tiles = panel_tiles_of<Shape>(one), steps = steps_of<Shape>(one);
    bytes += static_cast<int64_t>(one.weight.bytes()) * ((one.in.rows + Shape::kRows - 1) / Shape::kRows) +
             tiles * steps * Shape::kRows * Shape::kStepInputs * 2;
    work.tiles += tiles, work.steps += tiles * steps;
    work.longest = std::max(work.longest, steps);
    work.shortest = work.shortest == 0 ? steps : std::min(work.shortest, steps);
    work.numbers += one.in.rows * one.weight.out * steps;
  }
  work.traffic = bytes / kBytesPerUnit;
  return work;
}

// Calls f(parts, steps of each) for the ways to split a tile over a cluster's blocks (split-K)
// where all clusters run at once.
template <class F>
void for_each_split(GemmList products, const WgmmaRoom& room, const ShapeWork& work, F&& f) {
  if (work.longest != work.shortest || products.front().in.rows < kLeastClusterRows) return;
  for (int64_t parts = 2; parts <= kMostClusterBlocks; parts++) {
    const int64_t each = (work.longest + parts - 1) / parts;
    const bool last_has_some = each * (parts - 1) < work.longest;
    if (last_has_some && work.tiles <= room.clusters[static_cast<size_t>(parts)]) f(parts, each);
  }
}

template <class Shapes>
constexpr int64_t shapes_of(Shapes&& for_each_shape) {
  int64_t count = 0;
  for_each_shape([&](auto, int64_t) { count++; });
  return count;
}

// Returns the plan of least predicted time. for_each_shape(f) calls f(shape, time of a step of a tile, in
// hundredths of a microsecond). Candidates: whole tiles in waves; split-K over a cluster for each tile;
// stream-K, equal steps for each block, then a fix-up pass that costs steps_per_subtile for each subtile. A
// fixed order allows only whole tiles, and adds shapes of one warp group: small tiles are then the only way
// to spread a small matrix over the GPU.
template <class Shapes>
WgmmaPlan plan_shapes(GemmList products, const WgmmaRoom& room, int64_t steps_per_subtile, bool fixed_order,
                      Shapes&& for_each_shape) {
  const int64_t multiprocessors = room.multiprocessors;
  WgmmaPlan best;
  int64_t least = 0, shape_number = 0;
  for_each_shape([&](auto shape, int64_t step_cost) {
    using Shape = decltype(shape);
    const int64_t number = shape_number++;
    if (Shape::kGroups == 1 && !fixed_order) return;
    if (Shape::kSlices > 1 && fixed_order) return;
    const ShapeWork work = shape_work<Shape>(products);
    // A step's time was measured with all SMs at work. Sliced shapes are for few tiles and are bound by what
    // they read instead. `end`: time after the last step.
    const int64_t least_steps_cost = Shape::kSlices > 1 ? work.traffic : 0;
    const auto consider = [&](int64_t steps_cost, int64_t end, int64_t steps_of_each, const WgmmaPlan& plan) {
      const int64_t cost = std::max(steps_cost, least_steps_cost) + end;
      if (least != 0 && cost >= least) return;
      least = cost;
      best = plan;
      best.filled = work.numbers * 100 / (steps_of_each * multiprocessors * Shape::kPartial);
    };
    const int64_t rounds = (work.tiles + multiprocessors - 1) / multiprocessors;
    consider(rounds * work.longest * step_cost, 0, rounds * work.longest,
             {number, 0, 1, work.tiles, std::min(work.tiles, multiprocessors), 0});
    if (fixed_order) return;
    if constexpr (kSplits<Shape>) {
      for_each_split(products, room, work, [&](int64_t parts, int64_t each) {
        consider(std::max(each * step_cost, reading_time(products)), cluster_end<Shape>(parts), each,
                 {number, each, parts, work.tiles, work.tiles * parts, 0});
      });
    }
    const int64_t each = (work.steps + multiprocessors - 1) / multiprocessors,
                  blocks = (work.steps + each - 1) / each;
    consider(each * step_cost, steps_per_subtile * Shape::kSubtiles * Shape::kSlices * step_cost, each,
             {number, each, 1, work.tiles, blocks,
              static_cast<size_t>(2 * blocks * Shape::kPartial) * sizeof(float)});
  });
  return best;
}

}  // namespace fulmar::gpu
