// Prefetch of weights into L2: extra blocks of a kernel that leaves SMs idle request what a later kernel will
// read, so that memory bandwidth is not idle meanwhile.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "gpu/device/vendor.h"
#include "tensor/weight.h"
#ifdef FULMAR_DEVICE_CODE
#include "gpu/device/ptx.h"
#endif

namespace fulmar::gpu {

// The beginnings of some matrices: device addresses and bytes, multiples of 16. bytes[0] == 0: nothing.
constexpr int kMostPrefetched = 5;
struct Prefetch {
  const void* data[kMostPrefetched] = {};
  uint32_t bytes[kMostPrefetched] = {};

  bool any() const { return bytes[0] > 0; }
};

// At batch 1, the bytes of a matrix to prefetch if it is at least `least_share` times that large. Smaller
// matrices lose by it, and prefetching more delays the kernel's own reads.
struct PrefetchDepth {
  int64_t bytes, least_share;
};
struct PrefetchDepths {
  PrefetchDepth plain16, codes;
};
// Tuned with RWKV-7 7.2B on an H200 (16 bits) and an H100 (codes), see docs/lab; for square matrices (RWKV-6
// prefetches four of them) and the key matrix.
constexpr PrefetchDepths kPrefetchSquare{{int64_t{4} << 20, 8}, {int64_t{2} << 20, 4}};
constexpr PrefetchDepths kPrefetchSquare6{{int64_t{2} << 20, 8}, {int64_t{2} << 20, 4}};
constexpr PrefetchDepths kPrefetchKey{{int64_t{12} << 20, 8}, {int64_t{8} << 20, 4}};
// Returns the beginnings of at most kMostPrefetched matrices, as deep as the first one's format demands;
// empty where that one is too small.
Prefetch prefetch_of(std::initializer_list<const Weight*> weights, const PrefetchDepths& depths);

constexpr unsigned kPrefetchBlocks = 64;  // extra blocks of a launch that only prefetch

#ifdef FULMAR_DEVICE_CODE
// Prefetches share `part` of `parts`. All threads of the block call.
__device__ __forceinline__ void prefetch_part(const Prefetch& wanted, unsigned part, unsigned parts) {
  constexpr uint32_t kPrefetchPiece = 4096;
  if (threadIdx.x >= kWarp) return;
#pragma unroll
  for (int i = 0; i < kMostPrefetched; i++) {
    for (uint32_t at = (part * kWarp + threadIdx.x) * kPrefetchPiece; at < wanted.bytes[i];
         at += parts * kWarp * kPrefetchPiece) {
      prefetch_l2(static_cast<const char*>(wanted.data[i]) + at, min(kPrefetchPiece, wanted.bytes[i] - at));
    }
  }
}
#endif

}  // namespace fulmar::gpu
