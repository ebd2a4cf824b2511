// Independent products of more rows than linear_rows takes, in one launch: too small one by one to fill the
// GPU. Blocks take a tile of outputs and rows and a slice of the inputs; the last one of a tile adds up the
// slices in order.
#include "base/check.h"
#include "gpu/epilogue.h"
#include "gpu/kernels.h"
#include "gpu/linear_choice.h"
#include "gpu/tile_product.h"

namespace fulmar::gpu {

namespace {

template <class T>
struct Product {
  Rows<const T> in;
  const T* weight;
  Rows<T> out;
  int outs, first_tile;
  Epilogue epilogue;
};

template <class T>
struct Products {
  int count, rows, k, slices, steps;  // steps of a slice
  float* partial;                     // [tiles, slices, tile]
  uint32_t* counters;                 // [tiles]
  Product<T> each[kMostProducts];
};

constexpr int kPieceOuts = 4;

// Adds up the slices of the block's tile and returns true, or leaves its own for the block that comes last.
template <class Shape>
__device__ bool gather_slices(float* product, float* partial, uint32_t* counter, int slices, int rows) {
  constexpr int kAcross = Shape::kOuts / kPieceOuts, kTile = Shape::kRows * Shape::kOuts;
  __shared__ bool last;
  const auto for_each = [&](auto&& f) {
    for (int i = threadIdx.x; i < rows * kAcross; i += kTileThreads) {
      const int row = i / kAcross, out = i % kAcross * kPieceOuts;
      f(&product[row * Shape::kProductStride + out], row * Shape::kOuts + out);
    }
  };
  float* own = partial + static_cast<int64_t>(blockIdx.z) * kTile;
  for_each([&](float* at, int i) { store4(own + i, load4(at)); });
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) + 1 == static_cast<uint32_t>(slices);
    if (last) *counter = 0;
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
  for_each([&](float* at, int i) {
    Float4 sum{};
#pragma unroll 8
    for (int s = 0; s < slices; s++) {
      const float4 part =
          __ldcg(reinterpret_cast<const float4*>(partial + static_cast<int64_t>(s) * kTile + i));
      sum.x[0] += part.x, sum.x[1] += part.y, sum.x[2] += part.z, sum.x[3] += part.w;
    }
    store4(at, sum);
  });
  return true;  // each thread goes on with the numbers that it has stored
}

// Grid: tiles of outputs of all products, tiles of rows, slices.
template <class T, class Shape>
__global__ void __launch_bounds__(kTileThreads, 1)
    linear_tiles_kernel(const __grid_constant__ Products<T> products) {
  extern __shared__ __align__(16) unsigned char shared[];
  int index = 0;
  while (index + 1 < products.count && blockIdx.x >= products.each[index + 1].first_tile) index++;
  const Product<T>& p = products.each[index];
  const int first_out = (blockIdx.x - p.first_tile) * Shape::kOuts, first_row = blockIdx.y * Shape::kRows;
  const int rows = min(products.rows - first_row, Shape::kRows), outs = min(p.outs - first_out, Shape::kOuts);
  const int first = blockIdx.z * products.steps * Shape::kStep;
  let_next_start();
  multiply_tile<Shape>(
      TileOperands<T>{p.weight + static_cast<int64_t>(first_out) * products.k, outs, p.in[first_row],
                      p.in.stride, rows, products.k, first,
                      min(products.steps, (products.k - first + Shape::kStep - 1) / Shape::kStep)},
      shared);
  auto* product = reinterpret_cast<float*>(shared);
  if (products.slices > 1) {
    const int tile = blockIdx.y * gridDim.x + blockIdx.x;
    float* partial =
        products.partial + static_cast<int64_t>(tile) * products.slices * Shape::kRows * Shape::kOuts;
    if (!gather_slices<Shape>(product, partial, products.counters + tile, products.slices, rows)) return;
  }
  constexpr int kAcross = Shape::kOuts / kPieceOuts;
  for (int i = threadIdx.x; i < rows * kAcross; i += kTileThreads) {
    const int row = i / kAcross, out = i % kAcross * kPieceOuts;
    if (out >= outs) continue;
    Float4 v = load4(&product[row * Shape::kProductStride + out]);
#pragma unroll
    for (float& e : v.x) e = finish(p.epilogue, e);
    store4(p.out[first_row + row] + first_out + out, v);
  }
}

template <class Shape>
int64_t tiles_of(RowsProducts list) {
  int64_t tiles = 0;
  for (const RowsProduct& one : list) tiles += (one.weight.out + Shape::kOuts - 1) / Shape::kOuts;
  return tiles;
}

template <class T, class Shape>
void linear_tiles_of(const Queue& queue, RowsProducts list, const TilePlan& plan, float* partial,
                     uint32_t* counters) {
  allow_shared(linear_tiles_kernel<T, Shape>, Shape::kBytes);
  Products<T> products{};
  products.slices = static_cast<int>(plan.slices);
  products.steps = static_cast<int>(plan.steps);
  products.partial = partial;
  products.counters = counters;
  int tiles = 0;
  for (const RowsProduct& one : list) {
    products.rows = static_cast<int>(one.in.rows);
    products.k = static_cast<int>(one.weight.in);
    FULMAR_CHECK(one.weight.out % kPieceOuts == 0 && one.weight.in == list.front().weight.in);
    products.each[products.count++] = {{one.in.as<const T>(), one.in.stride},
                                       static_cast<const T*>(one.weight.data),
                                       rows_of<T>(one.out),
                                       static_cast<int>(one.weight.out),
                                       tiles,
                                       one.epilogue};
    tiles += static_cast<int>((one.weight.out + Shape::kOuts - 1) / Shape::kOuts);
  }
  const dim3 grid(static_cast<unsigned>(tiles),
                  static_cast<unsigned>((products.rows + Shape::kRows - 1) / Shape::kRows),
                  static_cast<unsigned>(plan.slices));
  launch(queue, linear_tiles_kernel<T, Shape>, grid, dim3(kTileThreads), Shape::kBytes, products);
}

template <class F>
void with_shape(int64_t rows, F&& f) {
  if (rows <= NarrowTile::kRows) return f(NarrowTile{});
  f(MiddleTile{});
}

}  // namespace

size_t tile_shared_bytes(int64_t rows) {
  size_t bytes = 0;
  with_shape(rows, [&](auto shape) { bytes = decltype(shape)::kBytes; });
  return bytes;
}

// As many slices as give the least work to the multiprocessor that has most of it, two blocks on each at a
// time; of equals the fewest.
TilePlan plan_tiles(RowsProducts products, int multiprocessors) {
  const RowsProduct& any = products.front();
  const int64_t rows = any.in.rows;
  TilePlan plan;
  with_shape(rows, [&](auto shape) {
    using Shape = decltype(shape);
    const int64_t stages = (any.weight.in + Shape::kStep - 1) / Shape::kStep;
    plan.tiles = tiles_of<Shape>(products) * ((rows + Shape::kRows - 1) / Shape::kRows);
    int64_t least = 0;
    for (int64_t slices = 1; slices <= kMostTileSlices; slices++) {
      if (slices > 1 && slices * kLeastTileInputs > any.weight.in) break;
      const int64_t steps = (stages + slices - 1) / slices;
      const int64_t waves = (plan.tiles * slices + multiprocessors - 1) / multiprocessors;
      const int64_t cost = waves * (steps * Shape::kStep + kTileOverheadInputs);
      if (least != 0 && cost >= least) continue;
      least = cost;
      plan.steps = steps;
      plan.slices = (stages + steps - 1) / steps;
    }
    plan.partial_bytes =
        plan.slices > 1
            ? static_cast<size_t>(plan.tiles * plan.slices * Shape::kOuts * Shape::kRows) * sizeof(float)
            : 0;
  });
  return plan;
}

void linear_tiles(const Queue& queue, RowsProducts products, const TilePlan& plan, float* partial,
                  uint32_t* counters) {
  FULMAR_CHECK(products.size() <= kMostProducts);
  const Tensor in = products.front().in;
  with_activation(in.dtype, [&](auto sample) {
    with_shape(in.rows, [&](auto shape) {
      linear_tiles_of<decltype(sample), decltype(shape)>(queue, products, plan, partial, counters);
    });
  });
}

}  // namespace fulmar::gpu
