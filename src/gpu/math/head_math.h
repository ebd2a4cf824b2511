// Arithmetic on one head of 64 channels held by one warp, two adjacent channels per lane; shared by the
// kernels that finish project7, the recurrence and leave7.
#pragma once

#include "gpu/device/element.h"
#include "gpu/math/head_size.h"
#include "rwkv6/weights.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

// Returns 1 / max(norm, 1e-12) from the sum of squares, in f32: squares underflow f16 below 2.4e-4.
__device__ __forceinline__ float key_scale(float squares) { return fminf(rsqrtf(squares), 1e12f); }

struct PreparedKey {
  Float2 kk, k;
};

// Prepares this lane's two channels of a key; k_k and k_a point at them.
__device__ __forceinline__ PreparedKey prepare_key(const Float2& key, const Float2& rate, const float* k_k,
                                                   const float* k_a) {
  const Float2 by = load2(k_k), bend = load2(k_a);
  PreparedKey out;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    out.kk.x[i] = key.x[i] * by.x[i];
    out.k.x[i] = key.x[i] * (1.0f + (rate.x[i] - 1.0f) * bend.x[i]);
  }
  const float scale = key_scale(warp_sum(out.kk.x[0] * out.kk.x[0] + out.kk.x[1] * out.kk.x[1]));
  out.kk.x[0] *= scale;
  out.kk.x[1] *= scale;
  return out;
}

struct LeaveWeights {
  const float *norm_weight, *norm_bias;  // each [C]
  const float* r_k;                      // [C], RWKV-7 only
};

inline LeaveWeights leave_weights(const TimeMix7& att) {
  return {att.ln_x.weight.as<float>(), att.ln_x.bias.as<float>(), att.r_k.as<float>()};
}
inline LeaveWeights leave_weights(const TimeMix6& att) {
  return {att.ln_x.weight.as<float>(), att.ln_x.bias.as<float>(), nullptr};
}

__device__ __forceinline__ Float2 normalise_head(const Float2& y, const LeaveWeights& weights, int64_t c) {
  const Float2 w = load2(weights.norm_weight + c), b = load2(weights.norm_bias + c);
  const float mean = warp_sum(y.x[0] + y.x[1]) / kHeadSize;
  const float d0 = y.x[0] - mean, d1 = y.x[1] - mean;
  const float scale = rsqrtf(warp_sum(d0 * d0 + d1 * d1) / kHeadSize + kHeadNormEps);
  return {{d0 * scale * w.x[0] + b.x[0], d1 * scale * w.x[1] + b.x[1]}};
}

// Returns (group norm of y + bonus) * g for this lane's channels c and c + 1; RWKV-6 has no bonus here.
__device__ __forceinline__ Float2 leave_head(const Float2& y, const Float2& g, const LeaveWeights& weights,
                                             int64_t c) {
  const Float2 normal = normalise_head(y, weights, c);
  return {{normal.x[0] * g.x[0], normal.x[1] * g.x[1]}};
}
__device__ __forceinline__ Float2 leave_head(const Float2& y, const Float2& r, const Float2& k,
                                             const Float2& v, const Float2& g, const LeaveWeights& weights,
                                             int64_t c) {
  const Float2 normal = normalise_head(y, weights, c), r_k = load2(weights.r_k + c);
  const float agreement = warp_sum(r.x[0] * k.x[0] * r_k.x[0] + r.x[1] * k.x[1] * r_k.x[1]);
  return {{(normal.x[0] + agreement * v.x[0]) * g.x[0], (normal.x[1] + agreement * v.x[1]) * g.x[1]}};
}

// Sums over half a warp: the functions below have four channels per lane and two heads per warp.
__device__ __forceinline__ float half_warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 4; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}
__device__ __forceinline__ float total(const Float4& v) { return (v.x[0] + v.x[1]) + (v.x[2] + v.x[3]); }

__device__ __forceinline__ void prepare_keys(Float4& key, Float4& kk, const Float4& rate, const float* k_k,
                                             const float* k_a) {
  const Float4 by = load4(k_k), bend = load4(k_a);
  Float4 squares;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    kk.x[i] = key.x[i] * by.x[i];
    squares.x[i] = kk.x[i] * kk.x[i];
    key.x[i] *= 1.0f + (rate.x[i] - 1.0f) * bend.x[i];
  }
  const float scale = key_scale(half_warp_sum(total(squares)));
#pragma unroll
  for (int i = 0; i < 4; i++) kk.x[i] *= scale;
}

__device__ __forceinline__ void normalise_heads(Float4& y, const LeaveWeights& weights, int64_t c) {
  const Float4 w = load4(weights.norm_weight + c), b = load4(weights.norm_bias + c);
  const float mean = half_warp_sum(total(y)) / kHeadSize;
  Float4 squares;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    y.x[i] -= mean;
    squares.x[i] = y.x[i] * y.x[i];
  }
  const float scale = rsqrtf(half_warp_sum(total(squares)) / kHeadSize + kHeadNormEps);
#pragma unroll
  for (int i = 0; i < 4; i++) y.x[i] = y.x[i] * scale * w.x[i] + b.x[i];
}

__device__ __forceinline__ void leave_heads(Float4& y, float agreement, const Float4& v, const Float4& g,
                                            const LeaveWeights& weights, int64_t c) {
  normalise_heads(y, weights, c);
#pragma unroll
  for (int i = 0; i < 4; i++) y.x[i] = (y.x[i] + agreement * v.x[i]) * g.x[i];
}
__device__ __forceinline__ void leave_heads(Float4& y, const Float4& r, const Float4& k, const Float4& v,
                                            const Float4& g, const LeaveWeights& weights, int64_t c) {
  const Float4 r_k = load4(weights.r_k + c);
  Float4 products;
#pragma unroll
  for (int i = 0; i < 4; i++) products.x[i] = r.x[i] * k.x[i] * r_k.x[i];
  leave_heads(y, half_warp_sum(total(products)), v, g, weights, c);
}

}  // namespace fulmar::gpu
