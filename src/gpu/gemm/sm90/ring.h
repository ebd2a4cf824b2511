// Warp specialisation of a block of a product on compute capability 9.0: a producer warp has TMA (the tensor
// memory accelerator) bring operands into a ring of stages in shared memory, consumer warp groups multiply
// them (wgmma), and neither waits for the other before the ring is full or empty (mbarriers).
#pragma once

#include "gpu/gemm/sm90/ptx.h"
#include "gpu/gemm/sm90/ring_place.h"

namespace fulmar::gpu {

constexpr int kRingStep = 64;  // inputs of a stage: 128 bytes, what TMA swizzles over
constexpr int kGroups = 2;     // warp groups that multiply
constexpr int kGroupThreads = 4 * kWarp;
// Registers are shared out anew among warp groups (setmaxnreg), so that a whole one is the producer's: so
// many where one thread has TMA bring everything.
constexpr int kRingThreads = (kGroups + 1) * kGroupThreads;
constexpr int kBringRegisters = 40, kMultiplyRegisters = 232;

// Shape: kStages, kStageBytes, and kFirstBytes of a stage's first operand.
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

// Until a consumer may read the ring's stage. kSlices: that consumers share the steps in.
template <int kSlices, class Shape>
__device__ __forceinline__ void wait_until_full(const Ring<Shape>& ring) {
  for_each_wait<kSlices>(ring.phase, [&](StageBarrier which, uint32_t parity) {
    mbarrier_wait(&(which == StageBarrier::full ? ring.full : ring.empty)[ring.place], parity);
  });
}

// One thread, before the block or the cluster meets; `filling`, `leaving`: arrivals that fill and empty a
// stage.
template <class Shape>
__device__ __forceinline__ void prepare_ring(const Ring<Shape>& ring, uint32_t filling, uint32_t leaving) {
#pragma unroll
  for (int i = 0; i < Shape::kStages; i++) {
    mbarrier_init(&ring.full[i], filling);
    mbarrier_init(&ring.empty[i], leaving);
  }
  mbarrier_publish();
}

// Swizzling counts from multiples of this.
constexpr size_t kRingAlignment = 1024;
__device__ __forceinline__ unsigned char* align_ring(unsigned char* shared) {
  return shared + (kRingAlignment - shared_address(shared) % kRingAlignment) % kRingAlignment;
}

}  // namespace fulmar::gpu
