// Converts and transposes matrices on the device, for import.
#include "gpu/device/element.h"
#include "gpu/device/import.h"
#include "gpu/device/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kTransposeTile = 32;

// Transposes through a tile in shared memory, so that reads and writes are both coalesced.
template <class From, class To>
__global__ void import_kernel(const From* source, int64_t rows, int64_t cols, int64_t row_stride,
                              int64_t col_stride, To* target, int64_t target_row_stride,
                              int64_t target_col_stride, uint32_t* overflow) {
  __shared__ float tile[kTransposeTile][kTransposeTile + 1];
  pdl_wait();
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTransposeTile,
                col0 = static_cast<int64_t>(blockIdx.x) * kTransposeTile;
  const bool along_rows = col_stride == 1;
  for (int i = threadIdx.y; i < kTransposeTile; i += blockDim.y) {
    const int x = threadIdx.x;
    const int r = along_rows ? i : x, c = along_rows ? x : i;
    const int64_t row = row0 + r, col = col0 + c;
    if (row < rows && col < cols) tile[r][c] = to_float(source[row * row_stride + col * col_stride]);
  }
  __syncthreads();
  for (int i = threadIdx.y; i < kTransposeTile; i += blockDim.y) {
    const int x = threadIdx.x;
    const bool along = target_col_stride == 1;
    const int r = along ? i : x, c = along ? x : i;
    const int64_t row = row0 + r, col = col0 + c;
    if (row >= rows || col >= cols) continue;
    const float value = tile[r][c];
    if (sizeof(To) == 2 && isfinite(value) && fabsf(value) > kLargestHalf &&
        fabsf(to_float(from_float<To>(value))) <= kLargestHalf) {
      *overflow = 1;
    }
    target[row * target_row_stride + col * target_col_stride] = from_float<To>(value);
  }
}

template <class From, class To>
void import_of(const Queue& queue, int64_t rows, int64_t cols, const Elements<const void>& from,
               const Elements<void>& to, uint32_t* overflow) {
  const dim3 grid(static_cast<unsigned>((cols + kTransposeTile - 1) / kTransposeTile),
                  static_cast<unsigned>((rows + kTransposeTile - 1) / kTransposeTile));
  launch(queue, import_kernel<From, To>, grid, dim3(kTransposeTile, 8), 0,
         static_cast<const From*>(from.data), rows, cols, from.row_stride, from.col_stride,
         static_cast<To*>(to.data), to.row_stride, to.col_stride, overflow);
}

template <class F>
void with_float_type(DType dtype, F&& f) {
  if (dtype == DType::f32) return f(float{});
  with_activation(dtype, f);
}

}  // namespace

bool has_code_here() {
  cudaFuncAttributes attributes;
  const cudaError_t error =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(import_kernel<float, float>));
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    forget_failure();
    return false;
  }
  FULMAR_GPU(error);
  return true;
}

void import_matrix(const Queue& queue, int64_t rows, int64_t cols, const Elements<const void>& from,
                   const Elements<void>& to, uint32_t* overflow) {
  with_float_type(from.dtype, [&](auto in) {
    with_float_type(to.dtype, [&](auto out) {
      import_of<decltype(in), decltype(out)>(queue, rows, cols, from, to, overflow);
    });
  });
}

}  // namespace fulmar::gpu
