// Shared by the pre-mix kernels: operands, norm and mixes of four numbers.
#pragma once

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/math/moments.h"
#include "gpu/stages/enter.h"

namespace fulmar::gpu {

constexpr int kEnterVector = 4;
constexpr int kMostMixes = 6;

struct MixPointers {
  int count;
  const float* mix[kMostMixes];
  void* out[kMostMixes];
  int64_t stride;
};

__device__ __forceinline__ Float4 load_share(const MixPointers& mixes, int m, int64_t c) {
  return mixes.mix[m] != nullptr ? load4(mixes.mix[m] + c) : Float4{{1.0f, 1.0f, 1.0f, 1.0f}};
}

template <class T, class Share>
__device__ void store_mixes(const MixPointers& mixes, int64_t row, int64_t c, const Float4& z,
                            const Float4& previous, Share share_of) {
#pragma unroll
  for (int m = 0; m < kMostMixes; m++) {
    if (m >= mixes.count) break;
    const Float4 share = share_of(m);
    Float4 v;
#pragma unroll
    for (int i = 0; i < kEnterVector; i++) v.x[i] = z.x[i] + (previous.x[i] - z.x[i]) * share.x[i];
    store4(static_cast<T*>(mixes.out[m]) + row * mixes.stride + c, v);
  }
}

// Returns v rounded as a store to memory would round it, so that one row and many give the same bits.
template <class T>
__device__ Float4 rounded(const Float4& v) {
  Float4 out;
#pragma unroll
  for (int i = 0; i < kEnterVector; i++) out.x[i] = to_float(from_float<T>(v.x[i]));
  return out;
}

struct EnterInputs {
  float* x;
  int64_t x_stride;
  const void* pending;  // or null
  int64_t pending_stride;
  const float *weight, *bias;
  int cols;
};

template <class T>
__device__ Float4 normalised(const Float4& v, const Float4& w, const Float4& b, const MeanAndScale& by) {
  Float4 z;
#pragma unroll
  for (int i = 0; i < kEnterVector; i++) z.x[i] = (v.x[i] - by.mean) * by.scale * w.x[i] + b.x[i];
  return rounded<T>(z);
}

inline MixPointers pointers_of(const Mixes& mixes) {
  MixPointers pointers{mixes.count, {}, {}, mixes.out[0].stride};
  for (int i = 0; i < mixes.count; i++) {
    FULMAR_CHECK(mixes.out[i].stride == pointers.stride);
    pointers.mix[i] = mixes.mix[i];
    pointers.out[i] = mixes.out[i].data;
  }
  return pointers;
}
inline EnterInputs inputs_of(const Norm& norm, Tensor x, Tensor pending) {
  return {x.as<float>(),
          x.stride,
          pending.data,
          pending.stride,
          norm.weight.as<float>(),
          norm.bias.as<float>(),
          static_cast<int>(x.cols)};
}

}  // namespace fulmar::gpu
