// How a block of a product is set up on compute capability 9.0: one warp has the copy engine bring operands
// into a ring of stages in shared memory, groups of four warps multiply them, and neither waits for the other
// before the ring is full or empty.
#pragma once

#include "gpu/sm90/ptx.h"

namespace fulmar::gpu {

constexpr int kRingStep = 64;  // inputs of a stage: 128 bytes, what the copy engine swizzles over
constexpr int kGroups = 2;     // of four warps that multiply
constexpr int kGroupThreads = 4 * kWarp;
// Registers are shared out anew among whole groups, so that one serves to bring.
constexpr int kRingThreads = (kGroups + 1) * kGroupThreads;
constexpr int kBringRegisters = 40, kMultiplyRegisters = 232;

// Shape: kStages, kStageBytes, and kFirstBytes of a stage's first operand.
template <class Shape>
struct Ring {
  unsigned char* stages;
  uint64_t *full, *empty;  // [kStages] each
  int place = 0;
  uint32_t turn = 0;  // parity of the phase
  __device__ __forceinline__ unsigned char* first() const { return stages + place * Shape::kStageBytes; }
  __device__ __forceinline__ unsigned char* second() const { return first() + Shape::kFirstBytes; }
  __device__ __forceinline__ void next() {
    if (++place == Shape::kStages) place = 0, turn ^= 1;
  }
};

// One thread, before the block or the cluster meets; `leaving`: arrivals that empty a stage.
template <class Shape>
__device__ __forceinline__ void prepare_ring(const Ring<Shape>& ring, uint32_t leaving) {
#pragma unroll
  for (int i = 0; i < Shape::kStages; i++) {
    init_barrier(&ring.full[i], 1);
    init_barrier(&ring.empty[i], leaving);
  }
  publish_barriers();
}

// Swizzling counts from multiples of this.
constexpr size_t kRingAlignment = 1024;
__device__ __forceinline__ unsigned char* align_ring(unsigned char* shared) {
  return shared + (kRingAlignment - shared_address(shared) % kRingAlignment) % kRingAlignment;
}

}  // namespace fulmar::gpu
