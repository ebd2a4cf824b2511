// Elementwise kernels: one block per row, four elements per thread and iteration.
#pragma once

#include <algorithm>

#include "gpu/device/device.h"
#include "gpu/device/ptx.h"

namespace fulmar::gpu {

constexpr int kRowVector = 4;

inline unsigned row_threads(int64_t cols) {
  const int64_t wanted = (cols / kRowVector + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, kWarp, 256));
}

// Calls f(col) for the first of every four columns of this block's row.
template <class F>
__device__ void for_each_vector(int64_t cols, F f) {
  for (int64_t c = threadIdx.x * kRowVector; c < cols; c += blockDim.x * kRowVector) f(c);
}

template <class F>
__global__ void rows_kernel(int64_t cols, F f) {
  pdl_launch_next();
  pdl_wait();
  for_each_vector(cols, [&](int64_t c) { f(static_cast<int64_t>(blockIdx.x), c); });
}

// Launches f(row, col) for the first of every four columns of every row.
template <class F>
void for_rows(const Queue& queue, int64_t rows, int64_t cols, F f) {
  launch(queue, rows_kernel<F>, dim3(static_cast<unsigned>(rows)), dim3(row_threads(cols)), 0, cols, f);
}

}  // namespace fulmar::gpu
