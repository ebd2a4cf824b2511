// Skinny GEMM: a block computes 16 outputs of one matrix; its warps divide the inputs (split-K within the
// block) and add up their parts in a fixed order.
#include <algorithm>

#include "base/check.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/grouped.h"
#include "gpu/gemm/skinny.h"
#include "gpu/gemm/skinny_product.h"

namespace fulmar::gpu {

namespace {

constexpr int kFewRowsWarps = 8;
constexpr int kFewRowsThreads = kFewRowsWarps * kWarp;

template <class T>
struct SkinnyMatrix {
  Rows<const T> in;
  const T* weight;
  void* out;
  int64_t out_stride;
  int k, outs;
  int first_tile;
  bool wide;  // out is f32
  Epilogue epilogue;
};

template <class T>
struct SkinnyMatrices : Grouped<SkinnyMatrix<T>> {
  int rows;
  LaunchPlace place;
};

// Computes a tile of 16 outputs. Along y of the grid: groups of kTiles * 8 rows.
template <class T, int kTiles>
__global__ void __launch_bounds__(kFewRowsThreads, 2)
    skinny_kernel(const __grid_constant__ SkinnyMatrices<T> products) {
  constexpr int kTileStride = kTileOut + 1;
  __shared__ float part[kFewRowsWarps][kTiles * kTileRows * kTileStride];
  const SkinnyMatrix<T>& product = products.at(blockIdx.x);
  const int warp = threadIdx.x / kWarp;
  const int64_t first_out = static_cast<int64_t>(blockIdx.x - product.first_tile) * kTileOut;
  pdl_begin(products.place);
  float sum[kTiles][4] = {};
  const int first_row = blockIdx.y * kTiles * kTileRows,
            rows = min(products.rows - first_row, kTiles * kTileRows);
  const Rows<const T> in = {product.in[first_row], product.in.stride};
  multiply_rows<T, kTiles, kFewRowsWarps>(product.weight + first_out * product.k,
                                          static_cast<int>(min(product.outs - first_out, int64_t{kTileOut})),
                                          in, rows, product.k, warp, sum, products.place);
  spread_rows<kTiles>(sum, part[warp], kTileStride);
  __syncthreads();
  for (int i = threadIdx.x; i < rows * kTileOut; i += kFewRowsThreads) {
    const int row = i / kTileOut, out = i % kTileOut;
    if (first_out + out >= product.outs) continue;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kFewRowsWarps; w++) total += part[w][row * kTileStride + out];
    total = finish(product.epilogue, total);
    const int64_t at = (first_row + row) * product.out_stride + first_out + out;
    if (product.wide) {
      static_cast<float*>(product.out)[at] = total;
    } else {
      static_cast<T*>(product.out)[at] = from_float<T>(total);
    }
  }
  pdl_end(products.place);
}

unsigned row_groups(int64_t rows, int tiles) {
  const int64_t each = tiles * kTileRows;
  return static_cast<unsigned>((rows + each - 1) / each);
}

template <class T, int kTiles>
void launch_skinny_of(const Queue& queue, GemmList list, LaunchPlace place) {
  SkinnyMatrices<T> products{};
  products.place = place;
  for (const Gemm& one : list) {
    products.rows = static_cast<int>(one.in.rows);
    products.add({{one.in.as<const T>(), one.in.stride},
                  static_cast<const T*>(one.weight.data),
                  one.out.data,
                  one.out.stride,
                  static_cast<int>(one.weight.in),
                  static_cast<int>(one.weight.out),
                  0,
                  one.out.dtype == DType::f32,
                  one.epilogue},
                 (one.weight.out + kTileOut - 1) / kTileOut);
  }
  launch(queue, skinny_kernel<T, kTiles>,
         dim3(static_cast<unsigned>(products.tiles), row_groups(products.rows, kTiles)),
         dim3(kFewRowsThreads), 0, products);
}

bool aligned16(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

bool suits_skinny(Tensor in, const Weight& weight) {
  return weight.plain16() && weight.dtype == in.dtype && !weight.by_input() && weight.in % 8 == 0 &&
         in.stride % 8 == 0 && aligned16(in.data) && aligned16(weight.data);
}

void launch_skinny(const Queue& queue, GemmList products, LaunchPlace place) {
  const Tensor in = products.front().in;
  FULMAR_CHECK(products.size() <= kMostGemms);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    if (in.rows <= kTileRows) return launch_skinny_of<T, 1>(queue, products, place);
    launch_skinny_of<T, 4>(queue, products, place);
  });
}

}  // namespace fulmar::gpu
