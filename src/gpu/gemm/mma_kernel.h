// The mma.sync GEMM kernel of mma.h for weights of any kind, and its launch. mma.cu and mma_q.cu
// define where weights come from.
#pragma once

#include "base/check.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/grouped.h"
#include "gpu/gemm/mma.h"
#include "gpu/gemm/mma_product.h"
#include "gpu/gemm/split_k.h"

namespace fulmar::gpu {

constexpr int kTileBlocksEach = 2;  // of an SM

// `Matrix`: a weight [outs, k] as the kernel takes it.
template <class T, class Matrix>
struct TiledMatrix {
  Rows<const T> in;
  Matrix weight;
  Rows<T> out;       // or
  Rows<float> wide;  // null data: `out`
  int outs, first_tile;
  Epilogue epilogue;
};

template <class T, class Matrix>
struct TiledMatrices : Grouped<TiledMatrix<T, Matrix>> {
  int rows, k, slices, steps;  // steps of a slice
  float* partial;              // [tiles, slices, tile]
  uint32_t* counters;          // [tiles]
};

// Calls f(row, out) for the first of every four outputs of a tile's rows.
template <class Shape, class F>
__device__ __forceinline__ void for_each_four(int rows, F&& f) {
  constexpr int kAcross = Shape::kOuts / 4;
  for (int i = threadIdx.x; i < rows * kAcross; i += kTileThreads) f(i / kAcross, i % kAcross * 4);
}

// Computes a tile, or a split-K slice of one. Grid: tiles of outputs (all products), tiles of rows, slices.
template <class T, class Shape, class Weights>
__global__ void __launch_bounds__(kTileThreads, kTileBlocksEach)
    mma_kernel(const __grid_constant__ TiledMatrices<T, typename Weights::Matrix> products) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr int kTileSums = Shape::kRows * Shape::kOuts;
  const TiledMatrix<T, typename Weights::Matrix>& p = products.at(blockIdx.x);
  const int first_out = (blockIdx.x - p.first_tile) * Shape::kOuts, first_row = blockIdx.y * Shape::kRows;
  const int rows = min(products.rows - first_row, Shape::kRows), outs = min(p.outs - first_out, Shape::kOuts);
  const int first = blockIdx.z * products.steps * Shape::kStep;
  pdl_launch_next();
  const TileOperands<T> operands{outs,
                                 p.in[first_row],
                                 p.in.stride,
                                 rows,
                                 products.k,
                                 first,
                                 min(products.steps, (products.k - first + Shape::kStep - 1) / Shape::kStep)};
  multiply_tile<Shape>(operands, Weights(p.weight, first_out, operands), shared);
  const auto end = [&](int row, int out, Float4 v) {
    if (out >= outs) return;
#pragma unroll
    for (float& e : v.x) e = finish(p.epilogue, e);
    if (p.wide.data != nullptr) return store4(p.wide[first_row + row] + first_out + out, v);
    store4(p.out[first_row + row] + first_out + out, v);
  };
  if (products.slices == 1) {
    for_each_four<Shape>(rows, [&](int row, int out) { end(row, out, tile_sum<Shape>(shared, row, out)); });
    return;
  }
  const int tile = blockIdx.y * gridDim.x + blockIdx.x;
  float* partial = products.partial + static_cast<int64_t>(tile) * products.slices * kTileSums;
  float* own = partial + static_cast<int64_t>(blockIdx.z) * kTileSums;
  for_each_four<Shape>(rows, [&](int row, int out) {
    store4(own + row * Shape::kOuts + out, tile_sum<Shape>(shared, row, out));
  });
  const auto parts = static_cast<uint32_t>(products.slices);
  if (!arrives_last(products.counters + tile, parts, [] { __syncthreads(); })) return;
  for_each_four<Shape>(rows, [&](int row, int out) {
    const float* from = partial + row * Shape::kOuts + out;
    Float4 sum{};
#pragma unroll 8
    for (int s = 0; s < products.slices; s++) {
      const float4 part = __ldcg(reinterpret_cast<const float4*>(from + static_cast<int64_t>(s) * kTileSums));
      sum.x[0] += part.x, sum.x[1] += part.y, sum.x[2] += part.z, sum.x[3] += part.w;
    }
    end(row, out, sum);
  });
}

template <class Shape>
int64_t out_tiles_of(const Gemm& one) {
  return (one.weight.out + Shape::kOuts - 1) / Shape::kOuts;
}
template <class Shape>
int64_t row_tiles_of(int64_t rows) {
  return (rows + Shape::kRows - 1) / Shape::kRows;
}

// Bounds of split-K: the most slices of a tile's inputs, and the least inputs of a slice. Below them costs in
// inputs: of starting a block, and of each slice when the slices of a tile are added up.
constexpr int64_t kMostSlices = 16, kLeastSliceInputs = 256;
constexpr int64_t kBlockInputs = 192, kGatherInputs = 96;

// Plans as many split-K slices as give the busiest block the least work; of equals the fewest.
template <class Shape>
MmaPlan plan_tiles_of(GemmList products, int multiprocessors, bool fixed_order) {
  const Gemm& any = products.front();
  const int64_t rows = any.in.rows, blocks_at_once = int64_t{multiprocessors} * kTileBlocksEach;
  MmaPlan plan{.fixed_order = fixed_order};
  const int64_t stages = (any.weight.in + Shape::kStep - 1) / Shape::kStep;
  for (const Gemm& one : products) plan.tiles += out_tiles_of<Shape>(one) * row_tiles_of<Shape>(rows);
  int64_t least = 0;
  for (int64_t slices = 1; slices <= (fixed_order ? 1 : kMostSlices); slices++) {
    if (slices > 1 && slices * kLeastSliceInputs > any.weight.in) break;
    const int64_t steps = (stages + slices - 1) / slices;
    const int64_t waves = (plan.tiles * slices + blocks_at_once - 1) / blocks_at_once;
    const int64_t gather = slices > 1 ? slices * kGatherInputs : 0;
    const int64_t cost = waves * (steps * Shape::kStep + kBlockInputs) + gather;
    if (least != 0 && cost >= least) continue;
    least = cost;
    plan.steps = steps;
    plan.slices = (stages + steps - 1) / steps;
  }
  const int64_t floats = plan.tiles * plan.slices * Shape::kOuts * Shape::kRows;
  plan.partial_bytes = plan.slices > 1 ? static_cast<size_t>(floats) * sizeof(float) : 0;
  return plan;
}

// Calls f(shape) with the tile for `rows` rows; for a fixed order, with warps that divide inputs alike.
static_assert(Tile16::kKWarps == Tile32::kKWarps);
template <class F>
void with_tile(int64_t rows, bool fixed_order, F&& f) {
  if (rows <= Tile16::kRows) return f(Tile16{});
  if (rows <= Tile32::kRows || fixed_order) return f(Tile32{});
  f(Tile64{});
}

// Launches mma_kernel. matrix_of(weight) returns the weight as Weights::Matrix.
template <class T, class Shape, class Weights, class MatrixOf>
void launch_tiles(const Queue& queue, GemmList list, const MmaPlan& plan, float* partial, uint32_t* counters,
                  MatrixOf&& matrix_of) {
  using Matrix = typename Weights::Matrix;
  const auto kernel = mma_kernel<T, Shape, Weights>;
  allow_shared(kernel, Shape::kBytes);
  TiledMatrices<T, Matrix> products{};
  products.slices = static_cast<int>(plan.slices);
  products.steps = static_cast<int>(plan.steps);
  products.partial = partial;
  products.counters = counters;
  for (const Gemm& one : list) {
    products.rows = static_cast<int>(one.in.rows);
    products.k = static_cast<int>(one.weight.in);
    FULMAR_CHECK(one.weight.out % 4 == 0 && one.weight.in == list.front().weight.in);
    const bool wide = one.out.dtype == DType::f32;
    products.add({{one.in.as<const T>(), one.in.stride},
                  matrix_of(one.weight),
                  {wide ? nullptr : one.out.as<T>(), one.out.stride},
                  {wide ? one.out.as<float>() : nullptr, one.out.stride},
                  static_cast<int>(one.weight.out),
                  0,
                  one.epilogue},
                 out_tiles_of<Shape>(one));
  }
  const dim3 grid(static_cast<unsigned>(products.tiles),
                  static_cast<unsigned>(row_tiles_of<Shape>(products.rows)),
                  static_cast<unsigned>(plan.slices));
  launch(queue, kernel, grid, dim3(kTileThreads), Shape::kBytes, products);
}

}  // namespace fulmar::gpu
