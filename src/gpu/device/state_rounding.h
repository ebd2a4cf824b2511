// How f32 numbers of a recurrent state become halves, in every kernel that writes them: stochastic rounding,
// up with the probability that the dropped part is of a unit. Rounding to nearest would hold on to what
// decays by less than half a unit a token and lose what is added in such steps, always to the same side.
//
// The random bits are a hash of the numbers themselves, whose lowest bits differ with every token. So they
// need no counter beside the state, and equal conversations have equal bits in whatever slot, forked or
// restored.
#pragma once

#include <cstdint>

#include "gpu/device/element.h"

namespace fulmar::gpu {

constexpr int kDroppedBits = 13;  // f32 mantissa bits that f16 lacks

// Returns 32 hash bits: the highest depend on all bits of both numbers, and the kDroppedBits above the last
// six on the dropped bits of both.
__device__ __forceinline__ uint32_t rounding_bits(uint32_t low, uint32_t high) {
  return low * 0x9e3779b1u + high * 0x85ebca77u;
}

// Rounds two neighbours to f16, packed with `low` first. Values that f16 represents are kept exactly.
__device__ __forceinline__ uint32_t pack_state_pair(float low, float high) {
  const uint32_t a = __float_as_uint(low), b = __float_as_uint(high), random = rounding_bits(a, b);
  constexpr uint32_t kMask = (1u << kDroppedBits) - 1;
  return pack_truncated(__uint_as_float(a + (random >> (32 - kDroppedBits))),
                        __uint_as_float(b + (random >> 6 & kMask)));
}

// Rounds one number to the state's type.
template <class S>
__device__ __forceinline__ S state_number(float x) {
  return x;
}
template <>
__device__ __forceinline__ Half state_number<Half>(float x) {
  return __ushort_as_half(static_cast<unsigned short>(pack_state_pair(x, 0.0f) & 0xffff));
}

// Stores four neighbours; the address is aligned to their size.
__device__ __forceinline__ void store_state4(float* p, const Float4& v) { store4(p, v); }
__device__ __forceinline__ void store_state4(Half* p, const Float4& v) {
  *reinterpret_cast<uint2*>(p) = make_uint2(pack_state_pair(v.x[0], v.x[1]), pack_state_pair(v.x[2], v.x[3]));
}

}  // namespace fulmar::gpu
