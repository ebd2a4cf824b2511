// Products of two to eight rows on compute capability 9.0 as one stream of weights: warp specialisation. A
// producer warp brings rows of weights by bulk copies into a ring of stages in shared memory, from before the
// kernel in front has finished and without a pause between tiles; consumer warps share the inputs (split-K
// within the block) and keep theirs in registers; a reducer warp adds up the consumers' parts, in order.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/products/sm90/ring.h"

namespace fulmar::gpu {

constexpr int kConsumers = 16;  // warps
constexpr int kProducerWarp = kConsumers, kReducerWarp = kConsumers + 1;
constexpr int kStreamingThreads = (kConsumers + 2) * kWarp;
constexpr int kStageRows = 16;      // rows of weights: a tile of outputs
constexpr int kConsumerWidth = 64;  // numbers of a row that a consumer takes
constexpr int kStageWidth = kConsumers * kConsumerWidth;
constexpr int kStreamColumns = 8;                         // of a matrix instruction: the rows of the product
constexpr int kStreamPart = kStageRows * kStreamColumns;  // sums of a consumer for a tile
constexpr int kMostStreamStages = 4;                      // that a row of weights takes

struct StreamShape {
  static constexpr int kStages = 6;
  static constexpr size_t kRowBytes = kStageWidth * sizeof(uint16_t) + 16;  // spreads the rows over the banks
  static constexpr size_t kStageBytes = kStageRows * kRowBytes;
  static constexpr size_t kFirstBytes = kStageBytes;
};

// What the three kinds of warps share.
struct StreamBarriers {
  uint64_t full[StreamShape::kStages], empty[StreamShape::kStages];
  uint64_t part_full[2], part_empty[2];
};
// Consumers' parts of two tiles: [2, kConsumers, output of the tile, row].
constexpr size_t kStreamPartBytes = sizeof(float) * 2 * kConsumers * kStreamPart;
constexpr size_t kStreamBytes = StreamShape::kStages * StreamShape::kStageBytes + kStreamPartBytes;

__device__ __forceinline__ void prepare_stream(const Ring<StreamShape>& ring, StreamBarriers& barriers) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    mbarrier_init(&barriers.part_full[i], kConsumers);
    mbarrier_init(&barriers.part_empty[i], 1);
  }
  prepare_ring(ring, kConsumers);
}

// The producer warp: fills the next stage with `width` numbers (a multiple of 8) of `rows` rows; lane i's row
// begins at `row`.
template <class T>
__device__ __forceinline__ void bring_stage(Ring<StreamShape>& ring, int rows, int width, const T* row) {
  const int lane = threadIdx.x % kWarp;
  const auto bytes = static_cast<uint32_t>(width) * static_cast<uint32_t>(sizeof(T));
  uint64_t* full = &ring.full[ring.place];
  mbarrier_wait(&ring.empty[ring.place], ring.phase ^ 1);
  if (lane == 0) mbarrier_expect_bytes(full, bytes * static_cast<uint32_t>(rows));
  __syncwarp();
  if (lane < rows) bulk_load(ring.first() + lane * StreamShape::kRowBytes, row, bytes, full);
  ring.next();
}

// A consumer: waits for the next stage, takes what it wants of it, and gives it back.
template <class Take>
__device__ __forceinline__ void take_stage(Ring<StreamShape>& ring, Take&& take) {
  mbarrier_wait(&ring.full[ring.place], ring.phase);
  take(ring.first() + threadIdx.x / kWarp * kConsumerWidth * sizeof(uint16_t));
  __syncwarp();
  if (threadIdx.x % kWarp == 0) mbarrier_arrive(&ring.empty[ring.place]);
  ring.next();
}

// A consumer's inputs: of each stage that a row of weights takes, 16 neighbours of the row that is the lane's
// column.
template <class T, int kMost>
struct StreamInputs {
  uint4 x[kMost][2];

  // Behind pdl_wait.
  __device__ __forceinline__ void load(const Rows<const T>& in, int rows, int k) {
    const int g = fragment_group(), q = fragment_place(), warp = threadIdx.x / kWarp;
#pragma unroll
    for (int s = 0; s < kMost; s++) {
      const int at = s * kStageWidth + warp * kConsumerWidth;
      const bool inside = at < k && g < rows;
      const auto* from = reinterpret_cast<const uint4*>(in[min(g, rows - 1)] + (inside ? at : 0)) + 2 * q;
      x[s][0] = inside ? from[0] : uint4{};
      x[s][1] = inside ? from[1] : uint4{};
    }
  }
};

// sum += the consumer's share of a tile, `stages` of the ring: outputs g and g + 8 of the tile for the rows
// 2q and 2q + 1.
template <class T, int kMost>
__device__ __forceinline__ void multiply_tile(Ring<StreamShape>& ring, const StreamInputs<T, kMost>& inputs,
                                              int k, float (&sum)[4]) {
  const int g = fragment_group(), q = fragment_place(), warp = threadIdx.x / kWarp;
#pragma unroll
  for (int s = 0; s < kMost; s++) {
    if (s * kStageWidth >= k) break;
    take_stage(ring, [&](const unsigned char* own) {
      if (s * kStageWidth + warp * kConsumerWidth >= k) return;
      const auto* low = reinterpret_cast<const uint4*>(own + g * StreamShape::kRowBytes) + 2 * q;
      const auto* high = reinterpret_cast<const uint4*>(own + (g + 8) * StreamShape::kRowBytes) + 2 * q;
      const uint4(&x)[2] = inputs.x[s];
      const uint4 low0 = low[0], low1 = low[1], high0 = high[0], high1 = high[1];
      mma<T>(sum, low0.x, high0.x, low0.y, high0.y, x[0].x, x[0].y);
      mma<T>(sum, low0.z, high0.z, low0.w, high0.w, x[0].z, x[0].w);
      mma<T>(sum, low1.x, high1.x, low1.y, high1.y, x[1].x, x[1].y);
      mma<T>(sum, low1.z, high1.z, low1.w, high1.w, x[1].z, x[1].w);
    });
  }
}

// A consumer leaves its part of tile number `tile` of the block; the reducer adds up all of them. Lane l of
// the reducer gets output l / 2 of the tile for the rows 4 * (l % 2) and the three behind it.
__device__ __forceinline__ void leave_part(StreamBarriers& barriers, float* parts, int tile,
                                           const float (&sum)[4]) {
  const int g = fragment_group(), q = fragment_place(), warp = threadIdx.x / kWarp, side = tile % 2;
  mbarrier_wait(&barriers.part_empty[side], (tile / 2 % 2) ^ 1);
  float* to = parts + (side * kConsumers + warp) * kStreamPart + g * kStreamColumns + 2 * q;
  store2(to, sum[0], sum[1]);
  store2(to + kStreamPart / 2, sum[2], sum[3]);
  __syncwarp();
  if (threadIdx.x % kWarp == 0) mbarrier_arrive(&barriers.part_full[side]);
}
__device__ __forceinline__ Float4 reduce_parts(StreamBarriers& barriers, const float* parts, int tile,
                                               int k) {
  const int lane = threadIdx.x % kWarp, side = tile % 2;
  const int consumers = min((k + kConsumerWidth - 1) / kConsumerWidth, kConsumers);
  mbarrier_wait(&barriers.part_full[side], tile / 2 % 2);
  const float* from = parts + side * kConsumers * kStreamPart + 4 * lane;
  Float4 total{};
#pragma unroll 8
  for (int c = 0; c < consumers; c++) {
    const Float4 part = load4(from + c * kStreamPart);
#pragma unroll
    for (int e = 0; e < 4; e++) total.x[e] += part.x[e];
  }
  __syncwarp();
  if (lane == 0) mbarrier_arrive(&barriers.part_empty[side]);
  return total;
}

}  // namespace fulmar::gpu
