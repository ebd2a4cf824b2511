// The kernel of panels, for any epilogue: `Finish` gets whole tiles (send) or vectors of four outputs (call
// operator) of f32 sums. Blocks that share a tile (stream-K) leave their sums in memory, and the last one of
// them adds these up in order.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "gpu/products/sm90/panel_product.h"
#include "gpu/products/sm90/tensor_map.h"
#include "gpu/products/split_k.h"

namespace fulmar::gpu {

constexpr int kPanelThreads = kGroups * kGroupThreads;  // that multiply

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
      store4(reinterpret_cast<float*>(&own[(subtile * kChunkVectors + i) * kPanelThreads + threadIdx.x]),
             v.of[i]);
    }
  });
  return arrives_last(&panels.counter[at.tile], static_cast<uint32_t>(blocks),
                      [] { named_barrier_sync(1 + kGroups, kPanelThreads); });
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
    SubtileVectors total = vectors_of<Shape>(subtile, group);
    for (int block = first_block; block <= last_block; block++) {
      const float4* from =
          partial_of<Shape>(panels, block, at.begin) + subtile * kChunkVectors * kPanelThreads + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kChunkVectors; i++) {
        const float4 v = __ldcg(&from[i * kPanelThreads]);
        Float4& to = total.of[i];
        to.x[0] += v.x, to.x[1] += v.y, to.x[2] += v.z, to.x[3] += v.w;
      }
    }
    end(subtile, total);
  }
}

template <class T, class Shape, class Finish>
__global__ void __launch_bounds__(kRingThreads, 1)
    panels_kernel(const __grid_constant__ Panels panels, const __grid_constant__ Finish finish) {
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[Shape::kStages], empty[Shape::kStages];
  Ring<Shape> ring{align_ring(shared), full, empty};
  pdl_launch_next();
  if (threadIdx.x == 0) prepare_ring(ring, kGroups * kGroupThreads / kWarp);
  __syncthreads();
  const int group = threadIdx.x / kGroupThreads;
  if (group == kGroups) {
    setmaxnreg_dec<kBringRegisters>();
    if (threadIdx.x == kGroups * kGroupThreads) bring_steps(panels, ring);
  } else {
    setmaxnreg_inc<kMultiplyRegisters>();
    pdl_wait();
    float* chunk = reinterpret_cast<float*>(ring.stages + Shape::kStages * Shape::kStageBytes) +
                   group * kChunkRows * kChunkStride;
    Segment at;
    for (Walk<Shape> walk(panels); walk.next(at);) {
      PanelSums<Shape> sum;
      multiply_segment<Shape, T>(at, ring, group, sum);
      end_segment<T, Shape>(panels, finish, at, sum, group, chunk);
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
inline int64_t steps_of(const Product& one) { return (one.weight.in + kRingStep - 1) / kRingStep; }

template <class Shape>
Panels panels_of(ProductList list) {
  FULMAR_CHECK(list.size() <= kMostProducts);
  Panels panels{};
  panels.rows = static_cast<int>(list.front().in.rows);
  panels.row_tiles = (panels.rows + Shape::kRows - 1) / Shape::kRows;
  for (const Product& one : list) {
    FULMAR_CHECK(one.in.rows == panels.rows && one.weight.out % 4 == 0);
    const Tensor weight{const_cast<void*>(one.weight.data), one.in.dtype, one.weight.out, one.weight.in,
                        one.weight.in};
    const int steps = static_cast<int>(steps_of(one)), tiles = static_cast<int>(panel_tiles_of<Shape>(one));
    panels.each[panels.count++] = {tensor_map(weight, Shape::kOuts),
                                   tensor_map(one.in, Shape::kRows),
                                   {},
                                   false,
                                   static_cast<int>(one.weight.out),
                                   steps,
                                   panels.steps,
                                   panels.tiles};
    panels.steps += tiles * steps;
    panels.tiles += tiles;
  }
  return panels;
}

template <class T, class Shape, class Finish>
void launch_panels(const Queue& queue, const Panels& panels, const Finish& finish, int64_t blocks) {
  allow_shared(panels_kernel<T, Shape, Finish>, Shape::kBytes);
  launch(queue, panels_kernel<T, Shape, Finish>, dim3(static_cast<unsigned>(blocks)), dim3(kRingThreads),
         Shape::kBytes, panels, finish);
}

}  // namespace fulmar::gpu
