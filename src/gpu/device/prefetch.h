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

// With one row, bytes of a matrix that are brought into the cache while a kernel of few blocks runs, if it is
// `least_share` times as large: smaller ones lose by it, and what is asked for beyond them delays what the
// kernel itself reads.
struct PrefetchDepth {
  int64_t bytes, least_share;
};
struct PrefetchDepths {
  PrefetchDepth plain16, codes;
};
// Of square matrices (RWKV-6: of four) and of the key matrix; from 7.2B on an H200 (16 bits) and an H100
// (codes), docs/lab.
constexpr PrefetchDepths kPrefetchSquare{{int64_t{4} << 20, 8}, {int64_t{2} << 20, 4}};
constexpr PrefetchDepths kPrefetchSquare6{{int64_t{2} << 20, 8}, {int64_t{2} << 20, 4}};
constexpr PrefetchDepths kPrefetchKey{{int64_t{12} << 20, 8}, {int64_t{8} << 20, 4}};
// The beginnings of at most kMostPrefetched matrices, as deep as the first one's format wants; nothing where
// that one is too small.
Prefetch prefetch_of(std::initializer_list<const Weight*> weights, const PrefetchDepths& depths);

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
