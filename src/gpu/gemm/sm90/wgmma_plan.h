// Which shape of tiles panels take and how blocks share them: pure, over what a step of each shape was found
// to take.
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

// Whether blocks of a cluster may share a tile of this shape: the ring has room for the tile's sums.
template <class Shape>
constexpr bool kSplits = Shape::kGroups > 1;

// From how many rows on clusters were found to pay. Below, tiles are so few that they want clusters of five
// blocks and more, whose shared memory was read too slowly.
constexpr int64_t kLeastClusterRows = 129;

// What reading weights takes at least, in hundredths of a microsecond at 4.55 TB/s.
inline int64_t reading_time(GemmList products) {
  size_t bytes = 0;
  for (const Gemm& one : products) bytes += one.weight.bytes();
  return static_cast<int64_t>(bytes) / 45'500;
}
// What adding up a cluster's tile takes at its end, in hundredths of a microsecond: two barriers of the
// cluster, and of some subtiles each block reads every block's sums, 25 bytes a nanosecond.
template <class Shape>
constexpr int64_t cluster_end(int64_t parts) {
  const int64_t own = (Shape::kSubtiles + parts - 1) / parts;
  const int64_t bytes = own * parts * Shape::kFinishing * kSubtileSums * static_cast<int64_t>(sizeof(float));
  return 400 + bytes * 4 / 1000;
}

// What tiles of one shape make of products.
struct ShapeWork {
  int64_t tiles = 0, steps = 0;       // of all products
  int64_t longest = 0, shortest = 0;  // steps of a tile
  int64_t numbers = 0;                // of outputs, as often as their tiles have steps
  int64_t traffic = 0;                // what all blocks read takes at least, in hundredths of a microsecond
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

// f(parts, steps of each) for the ways to share a tile among the blocks of a cluster, where all clusters run
// at once.
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

// The shape that should be through first, of those that for_each_shape(f) names by f(shape, what a step of
// one of its tiles takes, in hundredths of a microsecond): whole tiles one after the other; a cluster for
// each tile; or as many steps for each block with sums of tiles added up afterwards, which costs as much as
// steps_per_subtile for each subtile. In a fixed order only whole tiles, and for these shapes of one group,
// too: small tiles are then all that spreads a small matrix over the GPU.
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
    // What a step takes was found with all multiprocessors at work, but for sliced shapes, which are taken
    // where tiles are few: these are bound by what they read. `end`: behind the last step.
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
