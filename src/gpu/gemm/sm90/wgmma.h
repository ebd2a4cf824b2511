// Products of any number of rows on GPUs of compute capability 9.0: operands by TMA into a ring in shared
// memory, multiplied by wgmma; warp specialisation; stream-K, or split-K by clusters, where tiles are few
// (wgmma.cu).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

constexpr int64_t kWgmmaShapeCount = 8, kWgmmaQShapeCount = 7;
constexpr int64_t kSlicedShapeCount = 2;  // the last of the packed ones: sums in an order of their own
constexpr int kMostClusterBlocks = 8;     // blocks of a cluster on any GPU that has clusters

// What plans know of a device. Clusters lie within a GPC, and GPCs differ in how many of their
// multiprocessors work, so how many clusters run at once is asked of the device.
struct WgmmaRoom {
  int multiprocessors = 0;
  std::array<int, kMostClusterBlocks + 1>
      clusters{};  // of so many blocks with all of the shared memory; 0: none
};
WgmmaRoom wgmma_room(int multiprocessors);
// What is left of it for a launch that leaves `others` multiprocessors to another one.
WgmmaRoom room_without(const WgmmaRoom&, int64_t others);

struct WgmmaPlan {
  int64_t shape = 0;       // of the tiles, of kWgmmaShapeCount; which one is wgmma.cu's business
  int64_t steps_each = 0;  // of a block (stream-K, split-K); 0: whole tiles
  int64_t parts = 1;       // of a tile, each a block of the tile's own cluster (split-K); 1: no clusters
  int64_t tiles = 0, blocks = 0;
  size_t partial_bytes = 0;
  int64_t filled = 0;  // percent of what all multiprocessors compute meanwhile that is asked for
};
// `fixed_order`: whole tiles alone, so that every output is one sum over its inputs in their order, whatever
// the number of rows and the tile's shape.
WgmmaPlan plan_wgmma(GemmList, const WgmmaRoom&, bool fixed_order = false);

// What a launch may use, and nobody else until it has ended. partial: plan.partial_bytes; counters, where
// there are partial sums: zeroed once, [plan.tiles], zero again afterwards.
struct WgmmaWork {
  float* partial = nullptr;
  uint32_t* counters = nullptr;
  LaunchPlace place = LaunchPlace::alone;
};

// Plans of the first and the second of two such launches, each made by a function of the room that it has.
// second_share: of both launches' outputs the second's, a percentage, and half as much again is what it is
// left at least: it has fewer, longer sums.
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

// Products of equal row count, operands as suits_skinny wants them, outputs in the activation type or f32
// and a multiple of 4 wide.
void launch_wgmma(const Queue&, GemmList, const WgmmaPlan&, const WgmmaWork&);

}  // namespace fulmar::gpu
