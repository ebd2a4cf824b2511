#include "gpu/device/element.h"
#include "gpu/gemm/deltas.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

enum : uint8_t { kFloat, kHalf, kBFloat };

// Calls f with the matrix at `data`, as a pointer to elements of its type.
template <class F>
__device__ __forceinline__ void with_elements(const void* data, uint8_t type, F f) {
  if (type == kHalf) {
    f(static_cast<const Half*>(data));
  } else if (type == kBFloat) {
    f(static_cast<const BFloat*>(data));
  } else {
    f(static_cast<const float*>(data));
  }
}

// Computes low = down x of one row per block; a warp computes one number of it at a time.
template <class T>
__global__ void __launch_bounds__(kThreads)
    delta_down_kernel(const DeltaRow* list, int number, const Rows<const T> in, int64_t depth,
                      const Rows<float> low) {
  pdl_launch_next();
  pdl_wait();
  const DeltaRow at = list[blockIdx.x];
  if (number >= at.entries) return;
  const DeviceDelta delta = at.table[number];
  const int lane = threadIdx.x % kWarp;
  const T* x = in[at.row];
  for (int j = threadIdx.x / kWarp; j < delta.rank; j += kWarps) {
    float sum = 0;
    if (delta.down == nullptr) {
      const int64_t first = (j - delta.first_input % delta.rank + delta.rank) % delta.rank;
      for (int64_t i = first + int64_t{lane} * delta.rank; i < depth; i += int64_t{kWarp} * delta.rank) {
        sum += to_float(x[i]);
      }
    } else {
      with_elements(delta.down, delta.down_type, [&](const auto* down) {
        const auto* row = down + j * depth;
        for (int64_t i = lane; i < depth; i += kWarp) sum += to_float(row[i]) * to_float(x[i]);
      });
    }
    sum = warp_sum(sum);
    if (lane == 0) low[blockIdx.x][j] = sum;
  }
}

// Adds up low to kThreads outputs of one row per block.
template <class Out>
__global__ void __launch_bounds__(kThreads)
    delta_up_kernel(const DeltaRow* list, int number, const Rows<const float> low, const Rows<Out> out,
                    int64_t outs) {
  pdl_launch_next();
  pdl_wait();
  extern __shared__ float shared_low[];
  const DeltaRow at = list[blockIdx.x];
  if (number >= at.entries) return;
  const DeviceDelta delta = at.table[number];
  if (delta.rank == 0) return;
  for (int j = threadIdx.x; j < delta.rank; j += kThreads) shared_low[j] = low[blockIdx.x][j];
  __syncthreads();
  const int64_t o = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (o >= outs) return;
  float sum = 0;
  with_elements(delta.up, delta.up_type, [&](const auto* up) {
    const auto* row = up + o * delta.rank;
    for (int j = 0; j < delta.rank; j++) sum += to_float(row[j]) * shared_low[j];
  });
  Out& y = out[at.row][o];
  const float before = to_float(y), q = delta.scale * sum;
  const float change = delta.gain == nullptr ? q : delta.gain[o] * (before + q) - before;
  y = from_float<Out>(before + at.scale * change);
}

}  // namespace

uint8_t delta_type(DType dtype) {
  if (dtype == DType::f16) return kHalf;
  return dtype == DType::bf16 ? kBFloat : kFloat;
}

void add_deltas(const Queue& queue, const DeltaRowList& list, int number, Tensor in, Tensor out, Tensor low) {
  const auto rows = static_cast<unsigned>(list.count);
  const dim3 up_grid(rows, static_cast<unsigned>((out.cols + kThreads - 1) / kThreads));
  const size_t shared = static_cast<size_t>(list.most_rank) * sizeof(float);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    launch(queue, delta_down_kernel<T>, dim3(rows), dim3(kThreads), 0, list.rows, number,
           rows_of<const T>(in), in.cols, rows_of<float>(low));
    if (out.dtype == DType::f32) {
      launch(queue, delta_up_kernel<float>, up_grid, dim3(kThreads), shared, list.rows, number,
             rows_of<const float>(low), rows_of<float>(out), out.cols);
    } else {
      launch(queue, delta_up_kernel<T>, up_grid, dim3(kThreads), shared, list.rows, number,
             rows_of<const float>(low), rows_of<T>(out), out.cols);
    }
  });
}

}  // namespace fulmar::gpu
