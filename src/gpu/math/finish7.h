// What project7 owes once the products of its low-rank paths are known: biases, the rate's sigmoid and the
// value residual; the key preparation is in head_math.h. Every kernel that ends project7 goes by these rules.
#pragma once

#include "gpu/device/element.h"
#include "ops/args.h"

namespace fulmar::gpu {

// The low-rank paths of RWKV-7.
enum LowRankPath7 : int { kDecayPath, kRatePath, kValuePath, kGatePath, kLowRankPaths7 };

// Vectors of a layer that the ends of project7 meet, f32 [C] each.
struct Finish7Vectors {
  const float *w0, *a0, *v0;  // v0: null in the first block
  const float *k_k, *k_a;
};
inline Finish7Vectors finish7_vectors(const TimeMix7& att) {
  return {att.w.bias.as<float>(), att.a.bias.as<float>(), att.v.bias.as<float>(), att.k_k.as<float>(),
          att.k_a.as<float>()};
}

// u, the decay before its activation
__device__ __forceinline__ float decay_of(float product, float w0) { return product + w0; }
// log of the decay itself, w = exp(-exp(-0.5) * sigmoid(u))
__device__ __forceinline__ float log_decay7(float u) { return -kDecayScale * sigmoid(u); }
// alpha, the in-context learning rate
__device__ __forceinline__ float rate_of(float product, float a0) { return sigmoid(product + a0); }
// the value residual: v moves towards the first block's by this share
__device__ __forceinline__ float value_share(float product, float v0) { return sigmoid(product + v0); }
__device__ __forceinline__ float mixed_value(float v, float v_first, float share) {
  return v + (v_first - v) * share;
}

}  // namespace fulmar::gpu
