// Philox4x32-10 (Salmon et al., SC 2011): counter-based random numbers, the same on every backend.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define FULMAR_HOST_DEVICE __host__ __device__
#else
#define FULMAR_HOST_DEVICE
#endif

namespace fulmar {

struct PhiloxBlock {
  uint32_t x[4];
};

// Returns four independent 32-bit numbers for (seed, position, stream).
FULMAR_HOST_DEVICE inline PhiloxBlock philox(uint64_t seed, uint64_t position, uint64_t stream = 0) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t c0 = static_cast<uint32_t>(position), c1 = static_cast<uint32_t>(position >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Returns a uniform number in (0, 1), never an end point.
FULMAR_HOST_DEVICE inline float to_unit(uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * (1.0f / 8388608.0f);
}

}  // namespace fulmar
