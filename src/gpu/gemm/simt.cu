// Products of one to eight rows by dot products (dot.h): a warp has four outputs for all rows,
// its lanes divide the inputs into pieces of eight, a 16-byte load each, and several warps of
// the block divide the pieces (split-K).
#include <algorithm>

#include "base/check.h"
#include "gpu/device/dot.h"
#include "gpu/device/warp_sums.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/grouped.h"
#include "gpu/gemm/simt.h"

namespace fulmar::gpu {

namespace {

constexpr int kDotWarpOuts = 4, kDotWarps = 8, kDotThreads = kDotWarps * kWarp;
constexpr int kDotPiece = 8;  // inputs of a lane's load

// How a block's warps divide work: with more outputs for several rows, since each block reads all inputs.
template <int kRows>
struct DotShape {
  static constexpr int kShares = kRows <= 2 ? 4 : 2, kGroups = kDotWarps / kShares;
  static constexpr int kOuts = kGroups * kDotWarpOuts;                                    // of a block
  static constexpr int kSums = kRows <= 2 ? kDotWarpOuts * kRows : kRows <= 4 ? 16 : 32;  // padded, of a lane
};

template <class T>
struct DotMatrix {
  Rows<const T> in;
  const T* weight;
  void* out;
  int64_t out_stride;
  int k, outs;
  int first_tile;
  bool wide;  // out is f32
  Epilogue epilogue;
};

// Computes one warp's share of four outputs. Outputs past the end repeat the last one and are undefined.
template <class T, int kRows>
__device__ __forceinline__ void multiply_dots(const DotMatrix<T>& product, int first_out, int share,
                                              float (&sum)[DotShape<kRows>::kSums]) {
  constexpr int kStep = DotShape<kRows>::kShares * kWarp * kDotPiece;
  const int lane = threadIdx.x % kWarp;
  const T* weight[kDotWarpOuts];
#pragma unroll
  for (int o = 0; o < kDotWarpOuts; o++) {
    weight[o] = product.weight + static_cast<int64_t>(min(first_out + o, product.outs - 1)) * product.k;
  }
  const auto fetch = [&](uint4(&to)[kDotWarpOuts], int at) {
    if (at >= product.k) return;
#pragma unroll
    for (int o = 0; o < kDotWarpOuts; o++) to[o] = __ldcs(reinterpret_cast<const uint4*>(weight[o] + at));
  };
  const auto multiply = [&](const uint4(&w)[kDotWarpOuts], int at) {
    if (at >= product.k) return;
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const uint4 x = *reinterpret_cast<const uint4*>(product.in[r] + at);
#pragma unroll
      for (int o = 0; o < kDotWarpOuts; o++) sum[o * kRows + r] = dot8<T>(w[o], x, sum[o * kRows + r]);
    }
  };
  uint4 even[kDotWarpOuts], odd[kDotWarpOuts];  // one in flight while the other is multiplied
  const int first = (share * kWarp + lane) * kDotPiece;
  fetch(even, first);
  for (int at = first; at < product.k; at += 2 * kStep) {
    fetch(odd, at + kStep);
    multiply(even, at);
    fetch(even, at + 2 * kStep);
    multiply(odd, at + kStep);
  }
}

template <class T, int kRows>
__global__ void __launch_bounds__(kDotThreads)
    simt_kernel(const __grid_constant__ Grouped<DotMatrix<T>> products) {
  using Shape = DotShape<kRows>;
  constexpr int kSums = Shape::kSums;
  __shared__ float part[Shape::kGroups][Shape::kShares][kSums];
  const DotMatrix<T>& product = products.at(blockIdx.x);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int group = warp / Shape::kShares, share = warp % Shape::kShares;
  const int first_out = (static_cast<int>(blockIdx.x) - product.first_tile) * Shape::kOuts;
  pdl_launch_next();
  pdl_wait();
  float sum[kSums] = {};
  multiply_dots<T, kRows>(product, first_out + group * kDotWarpOuts, share, sum);
  const float total = warp_sums(sum);
  constexpr int kLanesEach = kWarp / kSums;
  if (lane % kLanesEach == 0) part[group][share][lane / kLanesEach] = total;
  __syncthreads();
  const int row = threadIdx.x / Shape::kOuts, own = threadIdx.x % Shape::kOuts, out = first_out + own;
  if (row >= kRows || out >= product.outs) return;
  float x = 0;
#pragma unroll
  for (int s = 0; s < Shape::kShares; s++) x += part[own / kDotWarpOuts][s][own % kDotWarpOuts * kRows + row];
  x = finish(product.epilogue, x);
  const int64_t at = row * product.out_stride + out;
  if (product.wide) {
    static_cast<float*>(product.out)[at] = x;
  } else {
    static_cast<T*>(product.out)[at] = from_float<T>(x);
  }
}

template <class T, int kRows>
void launch_simt_of(const Queue& queue, GemmList list) {
  Grouped<DotMatrix<T>> products{};
  for (const Gemm& one : list) {
    products.add({rows_of<const T>(one.in), static_cast<const T*>(one.weight.data), one.out.data,
                  one.out.stride, static_cast<int>(one.weight.in), static_cast<int>(one.weight.out), 0,
                  one.out.dtype == DType::f32, one.epilogue},
                 (one.weight.out + DotShape<kRows>::kOuts - 1) / DotShape<kRows>::kOuts);
  }
  launch(queue, simt_kernel<T, kRows>, dim3(static_cast<unsigned>(products.tiles)), dim3(kDotThreads), 0,
         products);
}

}  // namespace

void launch_simt(const Queue& queue, GemmList products) {
  const Tensor in = products.front().in;
  FULMAR_CHECK(in.rows <= kMostSimtRows);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    constexpr decltype(&launch_simt_of<T, 1>) kByRows[kMostSimtRows] = {
        launch_simt_of<T, 1>, launch_simt_of<T, 2>, launch_simt_of<T, 3>, launch_simt_of<T, 4>,
        launch_simt_of<T, 5>, launch_simt_of<T, 6>, launch_simt_of<T, 7>, launch_simt_of<T, 8>};
    kByRows[in.rows - 1](queue, products);
  });
}

}  // namespace fulmar::gpu
