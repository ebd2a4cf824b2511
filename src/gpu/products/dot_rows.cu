// Products of one to eight rows by dot products (dot.h): a warp has four outputs for all rows, its lanes
// share the inputs by pieces of eight, which is a load of 16 bytes, and four warps share the pieces (split-K
// within the block).
#include <algorithm>

#include "base/check.h"
#include "gpu/device/dot.h"
#include "gpu/device/warp_sums.h"
#include "gpu/products/dot_rows.h"
#include "gpu/products/epilogue.h"

namespace fulmar::gpu {

namespace {

constexpr int kDotWarpOuts = 4, kDotShares = 4, kDotGroups = 2;
constexpr int kDotThreads = kDotShares * kDotGroups * kWarp;
constexpr int kDotOuts = kDotGroups * kDotWarpOuts;  // of a block
constexpr int kDotPiece = 8;                         // inputs of a lane's load

template <class T>
struct DotMatrix {
  Rows<const T> in;
  const T* weight;
  void* out;
  int64_t out_stride;
  int k, outs;
  int first_block;
  bool wide;  // out is f32
  Epilogue epilogue;
};

template <class T>
struct DotMatrices {
  int count, rows;
  DotMatrix<T> each[kMostProducts];
};

// One warp's share of four outputs. Outputs and rows past the end repeat the last ones; their results mean
// nothing.
template <class T, int kRows>
__device__ __forceinline__ void multiply_dots(const DotMatrix<T>& product, int rows, int first_out, int share,
                                              float (&sum)[kDotWarpOuts * kRows]) {
  const int lane = threadIdx.x % kWarp;
  const T* weight[kDotWarpOuts];
  const T* in[kRows];
#pragma unroll
  for (int o = 0; o < kDotWarpOuts; o++) {
    weight[o] = product.weight + static_cast<int64_t>(min(first_out + o, product.outs - 1)) * product.k;
  }
#pragma unroll
  for (int r = 0; r < kRows; r++) in[r] = product.in[min(r, rows - 1)];
#pragma unroll 2
  for (int at = (share * kWarp + lane) * kDotPiece; at < product.k; at += kDotShares * kWarp * kDotPiece) {
    uint4 w[kDotWarpOuts];
#pragma unroll
    for (int o = 0; o < kDotWarpOuts; o++) w[o] = __ldcs(reinterpret_cast<const uint4*>(weight[o] + at));
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const uint4 x = *reinterpret_cast<const uint4*>(in[r] + at);
#pragma unroll
      for (int o = 0; o < kDotWarpOuts; o++) sum[o * kRows + r] = dot8<T>(w[o], x, sum[o * kRows + r]);
    }
  }
}

template <class T, int kRows>
__global__ void __launch_bounds__(kDotThreads)
    linear_dot_rows_kernel(const __grid_constant__ DotMatrices<T> products) {
  constexpr int kSums = kDotWarpOuts * kRows;
  __shared__ float part[kDotGroups][kDotShares][kSums];
  int index = 0;
  while (index + 1 < products.count && static_cast<int>(blockIdx.x) >= products.each[index + 1].first_block)
    index++;
  const DotMatrix<T>& product = products.each[index];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int group = warp / kDotShares, share = warp % kDotShares;
  const int first_out = (static_cast<int>(blockIdx.x) - product.first_block) * kDotOuts;
  pdl_launch_next();
  pdl_wait();
  float sum[kSums] = {};
  multiply_dots<T, kRows>(product, products.rows, first_out + group * kDotWarpOuts, share, sum);
  const float total = warp_sums(sum);
  constexpr int kLanesEach = kWarp / kSums;
  if (lane % kLanesEach == 0) part[group][share][lane / kLanesEach] = total;
  __syncthreads();
  const int row = threadIdx.x / kDotOuts, own = threadIdx.x % kDotOuts, out = first_out + own;
  if (row >= products.rows || out >= product.outs) return;
  float x = 0;
#pragma unroll
  for (int s = 0; s < kDotShares; s++) x += part[own / kDotWarpOuts][s][own % kDotWarpOuts * kRows + row];
  x = finish(product.epilogue, x);
  const int64_t at = row * product.out_stride + out;
  if (product.wide) {
    static_cast<float*>(product.out)[at] = x;
  } else {
    static_cast<T*>(product.out)[at] = from_float<T>(x);
  }
}

template <class T, int kRows>
void linear_dots_of(const Queue& queue, ProductList list) {
  DotMatrices<T> products{};
  int blocks = 0;
  for (const Product& one : list) {
    products.rows = static_cast<int>(one.in.rows);
    products.each[products.count++] = {rows_of<const T>(one.in),
                                       static_cast<const T*>(one.weight.data),
                                       one.out.data,
                                       one.out.stride,
                                       static_cast<int>(one.weight.in),
                                       static_cast<int>(one.weight.out),
                                       blocks,
                                       one.out.dtype == DType::f32,
                                       one.epilogue};
    blocks += static_cast<int>((one.weight.out + kDotOuts - 1) / kDotOuts);
  }
  launch(queue, linear_dot_rows_kernel<T, kRows>, dim3(static_cast<unsigned>(blocks)), dim3(kDotThreads), 0,
         products);
}

}  // namespace

void linear_dot_rows(const Queue& queue, ProductList products) {
  const Tensor in = products.front().in;
  FULMAR_CHECK(products.size() <= kMostProducts && in.rows <= kMostDotRows);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    if (in.rows == 1) return linear_dots_of<T, 1>(queue, products);
    if (in.rows == 2) return linear_dots_of<T, 2>(queue, products);
    if (in.rows <= 4) return linear_dots_of<T, 4>(queue, products);
    linear_dots_of<T, 8>(queue, products);
  });
}

}  // namespace fulmar::gpu
