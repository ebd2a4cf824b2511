// Warp specialisation on compute capability 9.0: a producer warp loads operands by TMA (tensor memory
// accelerator) into a ring of stages in shared memory, consumer warp groups multiply them (wgmma), and either
// waits only where the ring is full or empty (mbarriers).
#pragma once

#include "gpu/gemm/sm90/ptx.h"
#include "gpu/gemm/sm90/ring_place.h"

namespace fulmar::gpu {

constexpr int kRingStep = 64;  // inputs of a stage (K tile): 128 bytes, the span of TMA's swizzle
constexpr int kGroups = 2;     // warp groups that multiply
constexpr int kGroupThreads = 4 * kWarp;
// setmaxnreg moves registers from the producer to the consumers, for which the producer must be a whole warp
// group: these counts if one of its threads issues all TMA loads.
constexpr int kRingThreads = (kGroups + 1) * kGroupThreads;
constexpr int kBringRegisters = 40, kMultiplyRegisters = 232;

// Shape: kStages, kStageBytes, and kFirstBytes, the size of a stage's first operand.
template <class Shape>
struct Ring : RingPlace<Shape::kStages> {
  unsigned char* stages;
  uint64_t *full, *empty;  // [kStages] each
  __device__ __forceinline__ Ring(unsigned char* stages, uint64_t* full, uint64_t* empty)
      : stages(stages), full(full), empty(empty) {}
  __device__ __forceinline__ unsigned char* first() const {
    return stages + this->place * Shape::kStageBytes;
  }
  __device__ __forceinline__ unsigned char* second() const { return first() + Shape::kFirstBytes; }
};

// Waits until a consumer may read the ring's stage. kSlices: slices that the steps are divided among.
template <int kSlices, class Shape>
__device__ __forceinline__ void wait_until_full(const Ring<Shape>& ring) {
  for_each_wait<kSlices>(ring.phase, [&](StageBarrier which, uint32_t parity) {
    mbarrier_wait(&(which == StageBarrier::full ? ring.full : ring.empty)[ring.place], parity);
  });
}

// Initialises the mbarriers; one thread calls, before the block or cluster synchronises. `filling`,
// `leaving`: arrivals that fill and empty a stage.
template <class Shape>
__device__ __forceinline__ void prepare_ring(const Ring<Shape>& ring, uint32_t filling, uint32_t leaving) {
#pragma unroll
  for (int i = 0; i < Shape::kStages; i++) {
    mbarrier_init(&ring.full[i], filling);
    mbarrier_init(&ring.empty[i], leaving);
  }
  mbarrier_publish();
}

// Swizzling counts from multiples of this address.
constexpr size_t kRingAlignment = 1024;
__device__ __forceinline__ unsigned char* align_ring(unsigned char* shared) {
  return shared + (kRingAlignment - shared_address(shared) % kRingAlignment) % kRingAlignment;
}

}  // namespace fulmar::gpu
