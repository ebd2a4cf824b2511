// A product by plain multiply-adds: any shape, stride and alignment, no matrix units, no asynchronous copies.
// It stands in where the GEMM library is not wanted: below tools that cannot follow its kernels, and where it
// is missing or fails. A block computes 64 x 64 outputs, a thread 4 x 4 of them.
#include "gpu/element.h"
#include "gpu/kernels.h"

namespace fulmar::gpu {

namespace {

constexpr int kTile = 64, kDepth = 16, kSide = 16;
constexpr int kEach = kTile / kSide;  // outputs of a thread along either side, kSide apart
constexpr int kThreads = kSide * kSide;

// Element (row, at) lies at data[row * row_step + at * step]; beyond `rows` and the depth there are zeros.
template <class T>
struct Factor {
  const T* data;
  int64_t row_step, step, rows;
};

// Brings kTile rows from `row` on, kDepth deep from `first` on, one column of the tile behind the other.
template <class T>
__device__ void fetch(const Factor<T>& from, int64_t row, int64_t first, int64_t depth,
                      float (&to)[kDepth][kTile + 1]) {
  for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
    const int64_t r = row + i / kDepth, at = first + i % kDepth;
    const bool there = r < from.rows && at < depth;
    to[i % kDepth][i / kDepth] = there ? to_float(from.data[r * from.row_step + at * from.step]) : 0.0f;
  }
}

template <class T, class Out>
__global__ void __launch_bounds__(kThreads)
    linear_plain_kernel(const Factor<T> in, const Factor<T> weight, int64_t depth, const Rows<Out> out) {
  __shared__ float left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const int64_t first_row = int64_t{blockIdx.y} * kTile, first_out = int64_t{blockIdx.x} * kTile;
  const int down = threadIdx.x / kSide, across = threadIdx.x % kSide;
  let_next_start();
  wait_for_previous();
  float sum[kEach][kEach] = {};
  for (int64_t first = 0; first < depth; first += kDepth) {
    fetch(in, first_row, first, depth, left);
    fetch(weight, first_out, first, depth, right);
    __syncthreads();
    for (int at = 0; at < kDepth; at++) {
      float a[kEach], b[kEach];
      for (int i = 0; i < kEach; i++) a[i] = left[at][down + i * kSide], b[i] = right[at][across + i * kSide];
      for (int i = 0; i < kEach; i++) {
        for (int j = 0; j < kEach; j++) sum[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; i++) {
    for (int j = 0; j < kEach; j++) {
      const int64_t row = first_row + down + i * kSide, at = first_out + across + j * kSide;
      if (row < in.rows && at < weight.rows) out[row][at] = from_float<Out>(sum[i][j]);
    }
  }
}

unsigned tiles(int64_t count) { return static_cast<unsigned>((count + kTile - 1) / kTile); }

}  // namespace

void linear_plain(const Queue& queue, Tensor in, const Weight& weight, Tensor out) {
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    const int64_t row_step = weight.transposed ? 1 : weight.in, step = weight.transposed ? weight.out : 1;
    const Factor<T> left{in.as<const T>(), in.stride, 1, in.rows};
    const Factor<T> right{static_cast<const T*>(weight.data), row_step, step, weight.out};
    const dim3 grid(tiles(weight.out), tiles(in.rows));
    if (out.dtype == DType::f32) {
      launch(queue, linear_plain_kernel<T, float>, grid, dim3(kThreads), 0, left, right, weight.in,
             rows_of<float>(out));
    } else {
      launch(queue, linear_plain_kernel<T, T>, grid, dim3(kThreads), 0, left, right, weight.in,
             rows_of<T>(out));
    }
  });
}

}  // namespace fulmar::gpu
