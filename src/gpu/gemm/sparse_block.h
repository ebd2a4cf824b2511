// A block of the down-projection from a transposed weight [K, outs]: 128 outputs of one split-K slice. Two
// neighbouring warps have 64 outputs each; four such pairs divide the slice's inputs. This file has its shape
// and its epilogue: warps' sums are added in shared memory, the slices' sums in global memory (split-K).
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"
#include "gpu/gemm/sparse.h"
#include "gpu/gemm/sparse_step.h"
#include "gpu/gemm/split_k.h"

namespace fulmar::gpu {

constexpr int kValueThreads = 256;
constexpr int kValueWarps = kValueThreads / kWarp;
constexpr int kValueShares =
    kValueWarps * kKeptOuts / kSparseOuts;    // warps that divide the inputs of one output
constexpr int kPartStride = kSparseOuts + 4;  // spreads the rows over the banks

// Returns the bytes of shared memory that the epilogue takes for `tiles` tiles of eight rows.
constexpr size_t value_part_bytes(int tiles) {
  return static_cast<size_t>(kValueShares * tiles * 8 * kPartStride) * sizeof(float);
}

// Where a block stores its sums.
struct ValueSplit {
  float* partial;     // [slices, rows, outs]
  uint32_t* counter;  // of this block's outputs and rows
  int slices, slice;
  int rows, outs;             // of the product
  int first_row, block_rows;  // of the block
  int first_out;
};

// Adds up the warps' sums, then the slices'. sum: [j][t] has the lane's outputs 2j and 2j + 1 (as rows
// g and g + 8) for the rows 8t + 2q and 8t + 2q + 1. part: value_part_bytes of unused shared memory.
// The last block to arrive calls store(row, out, total), of the product, once for each of its outputs.
template <int kTiles, class Store>
__device__ __forceinline__ void finish_value(float* part, const float (&sum)[4][kTiles][4],
                                             const ValueSplit& to, Store&& store) {
  const int warp = threadIdx.x / kWarp, half = warp % 2, share = warp / 2;
  const int g = fragment_group(), q = fragment_place();
#pragma unroll
  for (int j = 0; j < 4; j++) {
#pragma unroll
    for (int t = 0; t < kTiles; t++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = t * 8 + Accumulator::column(q, i);
        const int out = half * kKeptOuts + g * kKeptLaneOuts + 2 * j + i / 2;
        part[(share * kTiles * 8 + row) * kPartStride + out] = sum[j][t][i];
      }
    }
  }
  __syncthreads();
  float* own =
      to.partial + (static_cast<int64_t>(to.slice) * to.rows + to.first_row) * to.outs + to.first_out;
  for (int i = threadIdx.x; i < to.block_rows * kSparseOuts; i += kValueThreads) {
    const int row = i / kSparseOuts, out = i % kSparseOuts;
    float total = 0;
#pragma unroll
    for (int s = 0; s < kValueShares; s++) total += part[(s * kTiles * 8 + row) * kPartStride + out];
    own[static_cast<int64_t>(row) * to.outs + out] = total;
  }

  if (!arrives_last(to.counter, static_cast<uint32_t>(to.slices), [] { __syncthreads(); })) return;
  for (int i = threadIdx.x; i < to.block_rows * kSparseOuts; i += kValueThreads) {
    const int row = to.first_row + i / kSparseOuts, out = to.first_out + i % kSparseOuts;
    float total = 0;
#pragma unroll 8
    for (int s = 0; s < to.slices; s++) {
      total += __ldcg(&to.partial[(static_cast<int64_t>(s) * to.rows + row) * to.outs + out]);
    }
    store(row, out, total);
  }
}

}  // namespace fulmar::gpu
