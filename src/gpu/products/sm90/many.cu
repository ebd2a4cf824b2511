// One product of many rows on GPUs of compute capability 9.0 with an epilogue, at the pace of wgmma:
// out[rows, outs] = epilogue(in[rows, K] * weight[outs, K]^T). Two blocks of a cluster take neighbouring
// tiles of rows and the same outputs, and each brings half of the weights for both (TMA multicast), since the
// L2 cache could not feed them one by one. Within a block (warp specialisation) two warp groups have 64 rows
// each, and a third is the producer, which runs ahead of them across the ends of tiles: blocks are
// persistent.
#include <algorithm>

#include "base/check.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/kernels.h"
#include "gpu/products/sm90/many.h"
#include "gpu/products/sm90/ring.h"
#include "gpu/products/sm90/tensor_map.h"

namespace fulmar::gpu {

namespace {

constexpr int kBlocks = 2;  // of a cluster
constexpr int kGroupRows = 64, kRows = kGroups * kGroupRows, kOuts = 256;
static_assert(kBlocks * kRows == kManyTileRows);
struct ManyShape {
  static constexpr int kStages = 4;
  static constexpr size_t kFirstBytes = size_t{kRows} * kRingStep * 2;  // the rows
  static constexpr size_t kStageBytes = kFirstBytes + size_t{kOuts} * kRingStep * 2;
};
// A group's results leave in pieces of 64 outputs, from two places by turns.
constexpr int kPieceOuts = 64, kPlaces = 2;
constexpr size_t kManyPieceBytes = size_t{kGroupRows} * kPieceOuts * 2;
constexpr size_t kBytes =
    kRingAlignment + ManyShape::kStages * ManyShape::kStageBytes + kGroups * kPlaces * kManyPieceBytes;

struct ManyRows {
  CUtensorMap in, weight, out;
  int steps, row_tiles, out_tiles;  // tiles of a cluster
};

struct Tile {
  int row, out;
};

// Bands of row tiles go through all outputs, so that what is multiplied at one time comes from little memory.
constexpr int kBand = 8;
__device__ __forceinline__ Tile tile_at(const ManyRows& p, int number) {
  const int band = number / (kBand * p.out_tiles), first = band * kBand;
  const int width = min(kBand, p.row_tiles - first), at = number - first * p.out_tiles;
  return {(first + at % width) * kBlocks * kRows, at / width * kOuts};
}

// Goes through the tiles of this block's cluster.
template <class F>
__device__ __forceinline__ void for_each_tile(const ManyRows& p, F f) {
  const int clusters = static_cast<int>(gridDim.x) / kBlocks;
  const int rank = static_cast<int>(cluster_rank());
  for (int i = static_cast<int>(blockIdx.x) / kBlocks; i < p.row_tiles * p.out_tiles; i += clusters) {
    Tile tile = tile_at(p, i);
    tile.row += rank * kRows;
    f(tile);
  }
}

__device__ __forceinline__ void bring_tiles(const ManyRows& p, Ring<ManyShape> ring) {
  constexpr int kShare = kOuts / kBlocks;
  const int share = static_cast<int>(cluster_rank()) * kShare;
  for_each_tile(p, [&](const Tile& tile) {
    for (int step = 0; step < p.steps; step++, ring.next()) {
      uint64_t* full = &ring.full[ring.place];
      mbarrier_wait(&ring.empty[ring.place], ring.phase ^ 1);
      mbarrier_expect_bytes(full, static_cast<uint32_t>(ManyShape::kStageBytes));
      tma_load(ring.first(), p.in, step * kRingStep, tile.row, full);
      tma_load_multicast((1 << kBlocks) - 1, ring.second() + share * kRingStep * 2, p.weight,
                         step * kRingStep, tile.out + share, full);
    }
  });
}

using Sums = float[kOuts / 2];

// What a group multiplies, of the ring's first stage, and where this lane reports stages that it has left:
// they are empty when both blocks have done with them.
struct Operands {
  uint64_t in, weights;
  uint32_t empty;
  bool reports;
  __device__ __forceinline__ Operands(const Ring<ManyShape>& ring, int group)
      : in(wgmma_matrix(ring.first() + group * (ManyShape::kFirstBytes / kGroups), 0)),
        weights(wgmma_matrix(ring.second(), 0)),
        empty(address_in(threadIdx.x % kBlocks, ring.empty)),
        reports(threadIdx.x % kWarp < kBlocks) {}
  __device__ __forceinline__ void leave(int place) const {
    if (reports) mbarrier_arrive_cluster(empty + static_cast<uint32_t>(place * sizeof(uint64_t)));
  }
};

template <class T>
__device__ __forceinline__ void multiply_ring_tile(int steps, Ring<ManyShape>& ring, const Operands& operands,
                                                   Sums& sum) {
  int previous = -1;  // the stage whose products may not have finished
  for (int step = 0; step < steps; step++) {
    wait_until_full<1>(ring);
    const auto at = static_cast<uint32_t>(ring.place * ManyShape::kStageBytes);
    wgmma_fence();
#pragma unroll
    for (uint32_t k = 0; k < kRingStep; k += 16) {
      wgmma<T, kOuts>(sum, wgmma_advance(operands.in, at + k * 2),
                      wgmma_advance(operands.weights, at + k * 2), step > 0 || k > 0);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (previous >= 0) operands.leave(previous);
    previous = ring.place;
    ring.next();
  }
  wgmma_wait<0>();
  operands.leave(previous);
#pragma unroll
  for (float& s : sum) wgmma_pin(s);
}

// A group's tile, through shared memory: lanes hold pairs of outputs, memory wants rows of them.
template <class T, Epilogue kEnd>
__device__ __forceinline__ void send_group_tile(const ManyRows& p, const Tile& tile, int group,
                                                unsigned char* places, Sums& sum) {
  const int thread = threadIdx.x % kGroupThreads, lane = thread % kWarp;
  const int row = thread / kWarp * 16 + lane % 16;  // that this lane gives the address of
#pragma unroll
  for (int piece = 0; piece < kOuts / kPieceOuts; piece++) {
    unsigned char* place = places + (group * kPlaces + piece % kPlaces) * kManyPieceBytes;
    if (thread == 0) bulk_wait_read<kPlaces - 1>();
    named_barrier_sync(1 + group, kGroupThreads);
#pragma unroll
    for (int pair = 0; pair < kPieceOuts / 16; pair++) {
      uint32_t packed[4];
#pragma unroll
      for (int m = 0; m < 4; m++) {
        const int at = (piece * kPieceOuts / 8 + pair * 2) * 4 + m * 2;
        packed[m] = pack_floats<T>(finish(kEnd, sum[at]), finish(kEnd, sum[at + 1]));
      }
      const int chunk = pair * 2 + lane / 16;
      stmatrix(place + row * kPieceOuts * 2 + (chunk ^ row % 8) * 16, packed);
    }
    fence_async_proxy();
    named_barrier_sync(1 + group, kGroupThreads);
    if (thread == 0) tma_store(p.out, tile.out + piece * kPieceOuts, tile.row + group * kGroupRows, place);
  }
}

template <class T, Epilogue kEnd>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kRingThreads, 1)
    many_rows_kernel(const __grid_constant__ ManyRows p) {
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[ManyShape::kStages], empty[ManyShape::kStages];
  Ring<ManyShape> ring{align_ring(shared), full, empty};
  pdl_launch_next();
  if (threadIdx.x == 0) prepare_ring(ring, 1, kBlocks * kGroups * kGroupThreads / kWarp);
  sync_cluster();
  pdl_wait();
  // From one lane, so that all know it to be the same in a warp.
  const int group = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  if (group == kGroups) {
    setmaxnreg_dec<kBringRegisters>();
    if (threadIdx.x == kGroups * kGroupThreads) bring_tiles(p, ring);
    __syncwarp();
  } else {
    setmaxnreg_inc<kMultiplyRegisters>();
    const Operands operands(ring, group);
    for_each_tile(p, [&](const Tile& tile) {
      Sums sum;
      multiply_ring_tile<T>(p.steps, ring, operands, sum);
      send_group_tile<T, kEnd>(p, tile, group, ring.stages + ManyShape::kStages * ManyShape::kStageBytes,
                               sum);
    });
    if (threadIdx.x % kGroupThreads == 0) bulk_wait_written();
    __syncwarp();
  }
  sync_cluster();  // the other block's copies and arrivals end here, too
}

}  // namespace

void linear_many(const Queue& queue, const Product& product, int multiprocessors) {
  const Tensor& in = product.in;
  const Weight& weight = product.weight;
  FULMAR_CHECK(product.epilogue == Epilogue::relu_squared && product.out.dtype == in.dtype);
  const Tensor matrix{const_cast<void*>(weight.data), in.dtype, weight.out, weight.in, weight.in};
  const auto tiles = [](int64_t size, int64_t each) { return static_cast<int>((size + each - 1) / each); };
  const ManyRows p{tensor_map(in, kRows),
                   tensor_map(matrix, kOuts / kBlocks),
                   tensor_map(product.out, kGroupRows),
                   tiles(weight.in, kRingStep),
                   tiles(in.rows, int64_t{kBlocks} * kRows),
                   tiles(weight.out, kOuts)};
  const int clusters = std::min(p.row_tiles * p.out_tiles, multiprocessors / kBlocks);
  with_activation(in.dtype, [&](auto sample) {
    const auto kernel = many_rows_kernel<decltype(sample), Epilogue::relu_squared>;
    allow_shared(kernel, kBytes);
    launch(queue, kernel, dim3(static_cast<unsigned>(clusters * kBlocks)), dim3(kRingThreads), kBytes, p);
  });
}

}  // namespace fulmar::gpu
