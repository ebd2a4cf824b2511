// The wgmma GEMM kernel for operands of any kind and any epilogue: `Finish` takes whole tiles (send) or
// vectors of four outputs (call operator) of f32 sums. Blocks that share a tile store partial sums, which the
// last to arrive adds up in order (stream-K); or keep them in shared memory, and each block of the cluster
// adds up a part of the tile (split-K).
#pragma once

#include "base/check.h"
#include "gpu/gemm/sm90/wgmma.h"
#include "gpu/gemm/sm90/wgmma_plan.h"
#include "gpu/gemm/sm90/wgmma_product.h"
#include "gpu/gemm/split_k.h"

namespace fulmar::gpu {

// Returns where an unfinished tile's sums lie: the first place is for the tile that the block begins in.
template <class Shape>
__device__ __forceinline__ float4* partial_of(const Panels& panels, int block, int tile_begin) {
  const int place = 2 * block + (block * panels.steps_each < tile_begin ? 1 : 0);
  return reinterpret_cast<float4*>(panels.partial + place * Shape::kPartial);
}

// Adds up a tile's slices (sliced-K): the others store their sums in their groups' chunks, and the first one
// adds them in order. All multiplying threads call.
template <class Shape>
__device__ __forceinline__ void add_slices(PanelSums<Shape>& sum, int group, float* chunks) {
  if constexpr (Shape::kSlices > 1) {
    const auto meet = [] { named_barrier_sync(2 + Shape::kGroups, Shape::kMultiplying); };
    constexpr int kChunk = kChunkRows * kChunkStride;
    static_assert(kSubtileSums * kGroupThreads <= kChunk);
    float* own = chunks + static_cast<int>(threadIdx.x) % kGroupThreads * 4;
#pragma unroll
    for (int m = 0; m < Shape::kOutTiles; m++) {
#pragma unroll
      for (int at = 0; at < Shape::kRows / 2; at += kSubtileSums) {
#pragma unroll
        for (int i = 0; i < kSubtileSums; i += 4) {
          float* s = &sum[m][at + i];
          if (group >= Shape::kOutGroups)
            store4(own + group * kChunk + i * kGroupThreads, Float4{{s[0], s[1], s[2], s[3]}});
        }
        meet();
        if (group < Shape::kOutGroups) {
#pragma unroll
          for (int other = Shape::kOutGroups; other < Shape::kGroups; other += Shape::kOutGroups) {
#pragma unroll
            for (int i = 0; i < kSubtileSums; i += 4) {
              const Float4 v = load4(own + (group + other) * kChunk + i * kGroupThreads);
#pragma unroll
              for (int e = 0; e < 4; e++) sum[m][at + i + e] += v.x[e];
            }
          }
        }
        meet();  // until here the others' chunks are read
      }
    }
  }
}

// Stores the segment's sums; returns whether the tile's other segments were all there
// already. All finishing threads call.
template <class Shape>
__device__ __forceinline__ bool leave_segment(const Panels& panels, const Segment& at, int blocks,
                                              const PanelSums<Shape>& sum, int group, float* chunk) {
  float4* own = partial_of<Shape>(panels, blockIdx.x, at.begin);
  for_each_subtile<Shape>(sum, group, chunk, [&](int subtile, const SubtileVectors& v) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      store4(reinterpret_cast<float*>(&own[(subtile * kChunkVectors + i) * Shape::kFinishing + threadIdx.x]),
             v.of[i]);
    }
  });
  return arrives_last(&panels.counter[at.tile], static_cast<uint32_t>(blocks),
                      [] { named_barrier_sync(1 + Shape::kGroups, Shape::kFinishing); });
}

// Adds up a part of a tile over all blocks of the cluster, in the blocks' order, through
// distributed shared memory (DSMEM), and calls f(subtile, vectors) for its subtiles. The
// ring must be empty: the sums go there.
template <class Shape, class F>
__device__ __forceinline__ void add_in_cluster(int parts, const PanelSums<Shape>& sum, unsigned char* stages,
                                               int group, float* chunk, F&& f) {
  constexpr int kVectors = kSubtileSums / 4;
  auto* left = reinterpret_cast<float4*>(stages) + threadIdx.x;  // [subtiles][kVectors][threads]
  named_barrier_sync(1 + Shape::kGroups, Shape::kFinishing);     // the other groups have multiplied, too
#pragma unroll
  for (int subtile = 0; subtile < Shape::kSubtiles; subtile++) {
    SubtileSums own;
    OutputsOf<Shape>::pick(sum, subtile, own);
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      left[(subtile * kVectors + i) * Shape::kFinishing] = {own[4 * i], own[4 * i + 1], own[4 * i + 2],
                                                            own[4 * i + 3]};
    }
  }
  sync_cluster();
#pragma unroll 1
  for (int subtile = static_cast<int>(cluster_rank()); subtile < Shape::kSubtiles; subtile += parts) {
    SubtileSums total{};
#pragma unroll 2
    for (int part = 0; part < parts; part++) {
      const uint32_t from = address_in(part, left + subtile * kVectors * Shape::kFinishing);
#pragma unroll
      for (int i = 0; i < kVectors; i++) {
        const float4 v = load_cluster(from + static_cast<uint32_t>(i * Shape::kFinishing * sizeof(float4)));
        total[4 * i] += v.x, total[4 * i + 1] += v.y, total[4 * i + 2] += v.z, total[4 * i + 3] += v.w;
      }
    }
    named_barrier_sync(1 + group, kGroupThreads);
    OutputsOf<Shape>::put(total, chunk);
    f(subtile, get_subtile<Shape>(subtile, group, chunk));
  }
  sync_cluster();  // shared memory stays until the others have read it
}

template <class T, class Shape, class Finish>
__device__ __forceinline__ void end_segment(const Panels& panels, const Finish& finish, const Segment& at,
                                            const PanelSums<Shape>& sum, int group, unsigned char* stages,
                                            float* chunk) {
  const PanelProduct& product = panels.each[at.product];
  const auto end = [&](int, SubtileVectors v) {
    v.row += at.first_row, v.out += at.first_out;
    if (v.out < product.outs) finish(at.product, v, panels.rows);
  };
  const bool whole = at.steps == product.steps;
  if (whole && finish.template send<Shape>(product, at, sum, group, chunk)) return;
  if (threadIdx.x % kGroupThreads == 0) bulk_wait_read<0>();  // until here the chunk may be on its way
  if (whole) return for_each_subtile<Shape>(sum, group, chunk, end);
  if constexpr (kSplits<Shape>) {
    if (panels.parts > 1) return add_in_cluster<Shape>(panels.parts, sum, stages, group, chunk, end);
  }
  const int first_block = at.begin / panels.steps_each,
            last_block = (at.begin + product.steps - 1) / panels.steps_each;
  if (!leave_segment<Shape>(panels, at, last_block - first_block + 1, sum, group, chunk)) return;
#pragma unroll 1
  for (int subtile = 0; subtile < Shape::kSubtiles; subtile++) {
    SubtileVectors total = OutputsOf<Shape>::vectors(subtile, group);
    for (int block = first_block; block <= last_block; block++) {
      const float4* from = partial_of<Shape>(panels, block, at.begin) +
                           subtile * kChunkVectors * Shape::kFinishing + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kChunkVectors; i++) {
        const float4 v = __ldcg(&from[i * Shape::kFinishing]);
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
  static_assert(Shape::kSlices < Shape::kStages);
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[Shape::kStages], empty[Shape::kStages];
  Ring<Shape> ring{align_ring(shared), full, empty};
  pdl_begin(panels.place);
  if (threadIdx.x == 0) prepare_ring(ring, Operands::kFilling, Shape::kFinishing / kWarp);
  operands.prepare();
  __syncthreads();
  const int group = threadIdx.x / kGroupThreads;
  if (group == Shape::kGroups) {
    if constexpr (Shape::kGroups > 1) setmaxnreg_dec<Operands::kBringRegisters>();
    operands.bring(panels, ring);
  } else {
    if constexpr (Shape::kGroups > 1) setmaxnreg_inc<Operands::kMultiplyRegisters>();
    float* const chunks = reinterpret_cast<float*>(ring.stages + Shape::kStages * Shape::kStageBytes);
    float* chunk = chunks + group * kChunkRows * kChunkStride;
    typename Operands::Consumer consumer(operands, group);
    Walk<Shape> walk(panels);
    Segment at;
    bool more = walk.next(at);
    if (more) consumer.begin(at);
    pdl_wait_for_inputs(panels.place);
    while (more) {
      PanelSums<Shape> sum;
      consumer.multiply(at, ring, sum);
      const Segment done = at;
      more = walk.next(at);
      if (more) consumer.begin(at);
      add_slices<Shape>(sum, group, chunks);
      if (Shape::kSlices > 1 && group >= Shape::kOutGroups) continue;
      end_segment<T, Shape>(panels, finish, done, sum, group, ring.stages, chunk);
    }
    if (threadIdx.x % kGroupThreads == 0) bulk_wait_written();
    pdl_end(panels.place);
  }
}

// ---- on the host

template <class Shape>
Panels panels_of(GemmList list) {
  Panels panels{};
  panels.parts = 1;
  panels.rows = static_cast<int>(list.front().in.rows);
  panels.row_tiles = (panels.rows + Shape::kRows - 1) / Shape::kRows;
  for (const Gemm& one : list) {
    FULMAR_CHECK(one.in.rows == panels.rows && one.weight.out % 4 == 0);
    const int steps = static_cast<int>(steps_of<Shape>(one)),
              tiles = static_cast<int>(panel_tiles_of<Shape>(one));
    panels.add({{}, false, static_cast<int>(one.weight.out), steps, panels.steps, 0}, tiles);
    panels.steps += tiles * steps;
  }
  return panels;
}

// Calls f(shape, panels) with the plan's shape and where unfinished sums are stored.
template <class Shapes, class F>
void with_planned_shape(GemmList products, const WgmmaPlan& plan, const WgmmaWork& work,
                        Shapes&& for_each_shape, F&& f) {
  int64_t shape_number = 0;
  for_each_shape([&](auto shape, int64_t) {
    if (shape_number++ != plan.shape) return;
    Panels panels = panels_of<decltype(shape)>(products);
    panels.steps_each = static_cast<int>(plan.steps_each);
    panels.parts = static_cast<int>(plan.parts);
    panels.place = work.place;
    panels.partial = work.partial;
    panels.counter = work.counters;
    f(shape, panels);
  });
}

template <class T, class Shape, class Operands, class Finish>
void launch_planned(const Queue& queue, const Panels& panels, const Operands& operands, const Finish& finish,
                    int64_t blocks) {
  static_assert(!kSplits<Shape> || Shape::kPartial * sizeof(float) <= Shape::kStages * Shape::kStageBytes);
  const auto kernel = panels_kernel<T, Shape, Operands, Finish>;
  allow_shared(kernel, Shape::kBytes);
  launch_clusters(queue, kernel, static_cast<unsigned>(panels.parts), dim3(static_cast<unsigned>(blocks)),
                  dim3(Shape::kThreads), Shape::kBytes, panels, operands, finish);
}

}  // namespace fulmar::gpu
