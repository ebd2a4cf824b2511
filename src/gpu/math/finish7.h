// project7's elementwise tail after its low-rank GEMMs: biases, the rate's sigmoid and the value residual
// (the key preparation is in head_math.h). Every kernel that finishes project7 uses these functions.
#pragma once

#include "gpu/device/element.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

// The low-rank paths of RWKV-7.
enum LowRankPath7 : int { kDecayPath, kRatePath, kValuePath, kGatePath, kLowRankPaths7 };

// A layer's vectors that project7's tail reads, f32 [C] each.
struct Finish7Vectors {
  const float *w0, *a0, *v0;  // v0: null in the first block
  const float *k_k, *k_a;
};
inline Finish7Vectors finish7_vectors(const TimeMix7& att) {
  return {att.w.bias.as<float>(), att.a.bias.as<float>(), att.v.bias.as<float>(), att.k_k.as<float>(),
          att.k_a.as<float>()};
}

// Returns u, the decay before its activation.
__device__ __forceinline__ float decay_of(float product, float w0) { return product + w0; }
// Returns the log of the decay w = exp(-exp(-0.5) * sigmoid(u)).
__device__ __forceinline__ float log_decay7(float u) { return -kDecayScale * sigmoid(u); }
// Returns alpha, the in-context learning rate.
__device__ __forceinline__ float rate_of(float product, float a0) { return sigmoid(product + a0); }
// Returns the fraction by which v moves towards the first block's (the value residual).
__device__ __forceinline__ float value_share(float product, float v0) { return sigmoid(product + v0); }
__device__ __forceinline__ float mixed_value(float v, float v_first, float share) {
  return v + (v_first - v) * share;
}

}  // namespace fulmar::gpu
