// wgmma GEMM for any number of rows on GPUs of compute capability 9.0: warp-specialised,
// TMA loads into a ring in shared memory, wgmma from there; stream-K, or split-K by
// clusters, where tiles are few (wgmma.cu).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

constexpr int64_t kWgmmaShapeCount = 8, kWgmmaQShapeCount = 7;
constexpr int64_t kSlicedShapeCount = 2;  // the last of kPackedShapes: they add in an order of their own
constexpr int kMostClusterBlocks = 8;     // blocks of a cluster on any GPU that has clusters

// What plans know of a device. Clusters lie within a GPC, and GPCs differ in how many of their SMs work, so
// the driver is asked how many clusters run at once.
struct WgmmaRoom {
  int multiprocessors = 0;
  std::array<int, kMostClusterBlocks + 1>
      clusters{};  // [n]: of n blocks with all of the shared memory; 0: none
};
WgmmaRoom wgmma_room(int multiprocessors);
// Returns the room of a launch that leaves `others` SMs to another one.
WgmmaRoom room_without(const WgmmaRoom&, int64_t others);

struct WgmmaPlan {
  int64_t shape = 0;       // index of the tile shape, below kWgmmaShapeCount; the list is wgmma.cu's
  int64_t steps_each = 0;  // K steps of a block (stream-K, split-K); 0: whole tiles
  int64_t parts = 1;       // of a tile (split-K), one a block of the tile's cluster; 1: no clusters
  int64_t tiles = 0, blocks = 0;
  size_t partial_bytes = 0;
  int64_t filled = 0;  // estimated occupancy: percent of all SMs' multiplications that are useful
};
// Plans a launch. `fixed_order`: whole tiles only, so that every output is one sum over its inputs in their
// order, whatever the number of rows and the tile's shape.
WgmmaPlan plan_wgmma(GemmList, const WgmmaRoom&, bool fixed_order = false);

// Memory of a launch, which must be its own until it has ended. partial: plan.partial_bytes; counters, where
// there are partial sums: [plan.tiles], zeroed once; the kernel leaves them zero.
struct WgmmaWork {
  float* partial = nullptr;
  uint32_t* counters = nullptr;
  LaunchPlace place = LaunchPlace::alone;
};

// Plans two concurrent launches, each by a function of the room (WgmmaRoom) left to it. second_share: the
// second's percentage of both launches' outputs; it gets at least one and a half times that share of the SMs,
// since it has fewer, longer sums.
struct WgmmaPair {
  WgmmaPlan first, second;
};
template <class First, class Second>
WgmmaPair plan_wgmma_pair(const WgmmaRoom& room, int64_t second_share, First&& plan_first,
                          Second&& plan_second) {
  const int64_t wanted = (room.multiprocessors * second_share * 3 / 2 + 99) / 100;
  WgmmaPair pair{plan_first(room), {}};
  if (room.multiprocessors - pair.first.blocks < wanted) pair.first = plan_first(room_without(room, wanted));
  pair.second = plan_second({static_cast<int>(room.multiprocessors - pair.first.blocks)});
  return pair;
}

// Enqueues products of equal row count. Operands as suits_skinny demands, outputs in the activation type or
// f32 and a multiple of 4 wide.
void launch_wgmma(const Queue&, GemmList, const WgmmaPlan&, const WgmmaWork&);

}  // namespace fulmar::gpu
