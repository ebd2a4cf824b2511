// A product by plain multiply-adds: any shape, stride and alignment; no matrix units, no shared memory, no
// asynchronous copies. It replaces the GEMM library where that is missing, fails or is not wanted: under
// tools that cannot follow its kernels. A warp computes one output of a few rows.
#include "gpu/device/element.h"
#include "gpu/gemm/naive.h"

namespace fulmar::gpu {

namespace {

constexpr int kPlainWarps = 8;
constexpr int kPlainRows = 8;  // of a warp

// Element (out, at) of the weight lies at data[out * out_step + at * step].
template <class T>
struct SteppedMatrix {
  const T* data;
  int64_t out_step, step, outs, depth;
};

template <class T, class Out>
__global__ void __launch_bounds__(kPlainWarps* kWarp)
    naive_kernel(const Rows<const T> in, int64_t rows, const SteppedMatrix<T> weight, const Rows<Out> out) {
  pdl_launch_next();
  pdl_wait();
  const int lane = threadIdx.x % kWarp;
  const int64_t o = int64_t{blockIdx.x} * kPlainWarps + threadIdx.x / kWarp,
                first = int64_t{blockIdx.y} * kPlainRows;
  if (o >= weight.outs) return;
  float sum[kPlainRows] = {};
  for (int64_t at = lane; at < weight.depth; at += kWarp) {
    const float w = to_float(weight.data[o * weight.out_step + at * weight.step]);
#pragma unroll
    for (int i = 0; i < kPlainRows; i++) {
      if (first + i < rows) sum[i] += w * to_float(in[first + i][at]);
    }
  }
#pragma unroll
  for (int i = 0; i < kPlainRows; i++) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2)
      sum[i] += __shfl_xor_sync(kFullWarp, sum[i], offset);
    if (lane == 0 && first + i < rows) out[first + i][o] = from_float<Out>(sum[i]);
  }
}

unsigned groups(int64_t count, int each) { return static_cast<unsigned>((count + each - 1) / each); }

}  // namespace

void launch_naive(const Queue& queue, Tensor in, const Weight& weight, Tensor out) {
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    const SteppedMatrix<T> matrix{static_cast<const T*>(weight.data), weight.by_input() ? 1 : weight.in,
                                  weight.by_input() ? weight.out : 1, weight.out, weight.in};
    const dim3 grid(groups(weight.out, kPlainWarps), groups(in.rows, kPlainRows));
    if (out.dtype == DType::f32) {
      launch(queue, naive_kernel<T, float>, grid, dim3(kPlainWarps * kWarp), 0, rows_of<const T>(in), in.rows,
             matrix, rows_of<float>(out));
    } else {
      launch(queue, naive_kernel<T, T>, grid, dim3(kPlainWarps * kWarp), 0, rows_of<const T>(in), in.rows,
             matrix, rows_of<T>(out));
    }
  });
}

}  // namespace fulmar::gpu
