// The beginning of each half block: residual add, norm, token shift and all mixes. One kernel where every
// sequence has one row; two where rows follow one another, since x is updated in place and a row needs the
// normalised row before it.
#include <algorithm>

#include "base/check.h"
#include "gpu/element.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kVector = 4;
constexpr int kMostMixes = 6;

struct MixPointers {
  int count;
  const float* mix[kMostMixes];
  void* out[kMostMixes];
  int64_t stride;
};

// As much as fits: with one row there is one block, and its latency is that of the whole step.
unsigned threads_for(int64_t cols) {
  const int64_t wanted = (cols / kVector + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, kWarp, 1024));
}

template <class T>
__device__ void store_mixes(const MixPointers& mixes, int64_t row, int64_t c, const Float4& z,
                            const Float4& previous) {
#pragma unroll
  for (int m = 0; m < kMostMixes; m++) {
    if (m >= mixes.count) break;
    const Float4 share =
        mixes.mix[m] != nullptr ? load4(mixes.mix[m] + c) : Float4{{1.0f, 1.0f, 1.0f, 1.0f}};
    Float4 v;
#pragma unroll
    for (int i = 0; i < kVector; i++) v.x[i] = z.x[i] + (previous.x[i] - z.x[i]) * share.x[i];
    store4(static_cast<T*>(mixes.out[m]) + row * mixes.stride + c, v);
  }
}

// Rounded as it would be through memory, so that one row and many give the same bits.
template <class T>
__device__ Float4 rounded(const Float4& v) {
  Float4 out;
#pragma unroll
  for (int i = 0; i < kVector; i++) out.x[i] = to_float(from_float<T>(v.x[i]));
  return out;
}

// Mean and 1 / deviation of x + pending, which is stored back and left in `row`.
template <class T>
__device__ void absorb(float* x, const T* pending, int64_t cols, float* row, float* scratch, float& mean,
                       float& scale) {
  float sum = 0;
  for (int64_t c = threadIdx.x * kVector; c < cols; c += blockDim.x * kVector) {
    Float4 v = load4(x + c);
    if (pending != nullptr) {
      const Float4 p = load4(pending + c);
#pragma unroll
      for (int i = 0; i < kVector; i++) v.x[i] += p.x[i];
      store4(x + c, v);
    }
    store4(row + c, v);
    sum += (v.x[0] + v.x[1]) + (v.x[2] + v.x[3]);
  }
  mean = block_sum(sum, scratch) / static_cast<float>(cols);
  float squares = 0;
  for (int64_t c = threadIdx.x * kVector; c < cols; c += blockDim.x * kVector) {
    const Float4 v = load4(row + c);
    for (const float e : v.x) squares += (e - mean) * (e - mean);
  }
  scale = rsqrtf(block_sum(squares, scratch) / static_cast<float>(cols) + kLayerNormEps);
}

template <class T>
__device__ Float4 normalised(const float* row, int64_t c, const float* weight, const float* bias, float mean,
                             float scale) {
  const Float4 v = load4(row + c), w = load4(weight + c), b = load4(bias + c);
  Float4 z;
#pragma unroll
  for (int i = 0; i < kVector; i++) z.x[i] = (v.x[i] - mean) * scale * w.x[i] + b.x[i];
  return rounded<T>(z);
}

// Every row is the only one of its sequence.
template <class T>
__global__ void enter_single_kernel(Batch batch, float* x, int64_t x_stride, const T* pending,
                                    int64_t pending_stride, const float* weight, const float* bias,
                                    Slots<float> carry, MixPointers mixes, Rows<T> z_out, int64_t cols) {
  extern __shared__ float row[];
  __shared__ float scratch[kWarp];
  const int64_t r = blockIdx.x;
  float* carried = carry[batch.slot[r]];
  let_next_start();
  for (int64_t c = threadIdx.x * 32; c < cols; c += blockDim.x * 32) {
    prefetch(weight + c);
    prefetch(bias + c);
    prefetch(carried + c);
#pragma unroll
    for (int m = 0; m < kMostMixes; m++) {
      if (m < mixes.count && mixes.mix[m] != nullptr) prefetch(mixes.mix[m] + c);
    }
  }
  wait_for_previous();
  float mean, scale;
  absorb(x + r * x_stride, pending == nullptr ? nullptr : pending + r * pending_stride, cols, row, scratch,
         mean, scale);
  for (int64_t c = threadIdx.x * kVector; c < cols; c += blockDim.x * kVector) {
    const Float4 z = normalised<T>(row, c, weight, bias, mean, scale),
                 previous = rounded<T>(load4(carried + c));
    store4(carried + c, z);
    if (z_out.data != nullptr) store4(z_out[r] + c, z);
    store_mixes<T>(mixes, r, c, z, previous);
  }
}

// First of two: z of every row; keeps what the first row of a sequence sees before the carried vector moves
// on.
template <class T>
__global__ void enter_norm_kernel(Batch batch, float* x, int64_t x_stride, const T* pending,
                                  int64_t pending_stride, const float* weight, const float* bias,
                                  Slots<float> carry, T* z, int64_t z_stride, float* first, int64_t cols) {
  extern __shared__ float row[];
  __shared__ float scratch[kWarp];
  let_next_start();
  wait_for_previous();
  const int64_t r = blockIdx.x;
  float mean, scale;
  absorb(x + r * x_stride, pending == nullptr ? nullptr : pending + r * pending_stride, cols, row, scratch,
         mean, scale);
  const int32_t sequence = batch.sequence_of[r];
  const bool keeps = r == batch.start[sequence];
  for (int64_t c = threadIdx.x * kVector; c < cols; c += blockDim.x * kVector) {
    store4(z + r * z_stride + c, normalised<T>(row, c, weight, bias, mean, scale));
    if (keeps) store4(first + sequence * cols + c, load4(carry[batch.slot[sequence]] + c));
  }
}

template <class T>
__global__ void enter_mix_kernel(Batch batch, Slots<float> carry, const T* z, int64_t z_stride,
                                 const float* first, MixPointers mixes, int64_t cols) {
  let_next_start();
  wait_for_previous();
  const int64_t r = blockIdx.x;
  const int32_t sequence = batch.sequence_of[r];
  const bool is_first = r == batch.start[sequence], is_last = r + 1 == batch.start[sequence + 1];
  for (int64_t c = threadIdx.x * kVector; c < cols; c += blockDim.x * kVector) {
    const Float4 own = load4(z + r * z_stride + c);
    const Float4 previous =
        is_first ? rounded<T>(load4(first + sequence * cols + c)) : load4(z + (r - 1) * z_stride + c);
    if (is_last) store4(carry[batch.slot[sequence]] + c, own);
    store_mixes<T>(mixes, r, c, own, previous);
  }
}

}  // namespace

void enter(const Queue& queue, const Batch& batch, const Norm& norm, Tensor x, Tensor pending,
           StateField carry, const Mixes& mixes, Tensor z, float* first) {
  MixPointers pointers{mixes.count, {}, {}, mixes.out[0].stride};
  for (int i = 0; i < mixes.count; i++) {
    FULMAR_CHECK(mixes.out[i].stride == pointers.stride);
    pointers.mix[i] = mixes.mix[i];
    pointers.out[i] = mixes.out[i].data;
  }
  const dim3 grid(static_cast<unsigned>(batch.rows)), block(threads_for(x.cols));
  const size_t shared = static_cast<size_t>(x.cols) * sizeof(float);
  const auto carried = slots_of<float>(carry);
  with_activation(mixes.out[0].dtype, [&](auto sample) {
    using T = decltype(sample);
    if (batch.decode_only()) {
      launch(queue, enter_single_kernel<T>, grid, block, shared, batch, x.as<float>(), x.stride,
             pending.as<T>(), pending.stride, norm.weight.as<float>(), norm.bias.as<float>(), carried,
             pointers, rows_of<T>(z), x.cols);
      return;
    }
    launch(queue, enter_norm_kernel<T>, grid, block, shared, batch, x.as<float>(), x.stride, pending.as<T>(),
           pending.stride, norm.weight.as<float>(), norm.bias.as<float>(), carried, z.as<T>(), z.stride,
           first, x.cols);
    launch(queue, enter_mix_kernel<T>, grid, block, 0, batch, carried, z.as<T>(), z.stride, first, pointers,
           x.cols);
  });
}

}  // namespace fulmar::gpu
