// Prefetch of weights into the L2 cache: blocks that a kernel of few blocks has to spare ask for what a later
// kernel will read, so that the memory does not rest meanwhile.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "gpu/device/vendor.h"
#include "tensor/weight.h"
#ifdef FULMAR_DEVICE_CODE
#include "gpu/device/ptx.h"
#endif

namespace fulmar::gpu {

// The beginnings of some matrices: addresses on the device, and bytes, multiples of 16. No bytes at [0]:
// none.
constexpr int kMostPrefetched = 5;
struct Prefetch {
  const void* data[kMostPrefetched] = {};
  uint32_t bytes[kMostPrefetched] = {};

  bool any() const { return bytes[0] > 0; }
};

// With one row, bytes of a matrix that are brought into the cache while a kernel of few blocks runs: of
// square ones (RWKV-6: of four) and of the key matrix, each if the first matrix is so many times as large.
// Smaller ones lose by it. From an H200 with 7.2B, 2026-11-21.
constexpr int64_t kPrefetchSquare = int64_t{4} << 20, kPrefetchSquare6 = int64_t{2} << 20;
constexpr int64_t kPrefetchKey = int64_t{12} << 20;
constexpr int64_t kLeastPrefetchShare = 8;
// The first `most` bytes of each, at most kMostPrefetched matrices; nothing where the first is too small.
Prefetch prefetch_of(std::initializer_list<const Weight*> weights, int64_t most);

constexpr unsigned kPrefetchBlocks = 64;  // blocks that a kernel is given for it, behind those of its work

#ifdef FULMAR_DEVICE_CODE
// Block `part` of `parts`; all its threads call.
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
