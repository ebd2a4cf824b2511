// Operands of the wgmma GEMM whose weights have 16 bits: one thread loads weights and inputs by TMA into the
// ring, and wgmma reads both from there.
#pragma once

#include "gpu/gemm/sm90/tensor_map.h"
#include "gpu/gemm/sm90/wgmma_product.h"

namespace fulmar::gpu {

// Runs the producer: bring_weights(segment, step, ring), which also sets how many bytes fill the stage, and
// bring_inputs for each step of its segments. Weights that fit into the ring are loaded before the previous
// kernels have finished (PDL).
template <class Shape, class BringWeights, class BringInputs>
__device__ __forceinline__ void bring_operands(const Panels& panels, Ring<Shape> ring,
                                               BringWeights&& bring_weights, BringInputs&& bring_inputs) {
  if (threadIdx.x != Shape::kMultiplying) return;
  Segment at;
  Ring<Shape> early = ring;
  int brought = 0;
  for (Walk<Shape> walk(panels); brought < Shape::kStages && walk.next(at);) {
    for (int i = 0; i < at.steps && brought < Shape::kStages; i++, brought++, early.next())
      bring_weights(at, at.first + i, early);
  }
  pdl_wait_for_inputs(panels.place);
  for (Walk<Shape> walk(panels); walk.next(at);) {
    for (int i = 0; i < at.steps; i++, brought--, ring.next()) {
      if (brought <= 0) {
        mbarrier_wait(&ring.empty[ring.place], ring.phase ^ 1);
        bring_weights(at, at.first + i, ring);
      }
      bring_inputs(at, at.first + i, ring);
    }
  }
}

// Tile shapes for weights of any type that the ring takes unchanged, with the time of a step (128 bytes
// of a row) on an H200 in hundredths of a microsecond. kStepsPerSubtile: of a split tile's subtile.
constexpr int64_t kStepsPerSubtile = 7;
constexpr auto kWideShapes = [](auto&& f) {
  f(PanelShape<1, 32, 10>{}, 48);
  f(PanelShape<1, 64, 8>{}, 50);
  f(PanelShape<1, 128, 6>{}, 54);
  f(PanelShape<2, 128, 4>{}, 82);
  f(PanelShape<2, 160, 4>{}, 100);
};

template <class T, class Shape>
struct PanelOperands {
  static constexpr int kBringRegisters = gpu::kBringRegisters, kMultiplyRegisters = gpu::kMultiplyRegisters;
  static constexpr uint32_t kFilling = 1;  // arrivals that fill a stage

  CUtensorMap weight[kMostGemms], in[kMostGemms];

  // Prepares a block; called before it synchronises for the first time.
  __device__ __forceinline__ void prepare() const {}

  __device__ __forceinline__ void bring(const Panels& panels, const Ring<Shape>& ring) const {
    bring_operands<Shape>(
        panels, ring,
        [&](const Segment& at, int step, const Ring<Shape>& to) {
          mbarrier_expect_bytes(&to.full[to.place], static_cast<uint32_t>(Shape::kStageBytes));
          tma_load(to.first(), weight[at.product], step * kRingStep, at.first_out, &to.full[to.place]);
        },
        [&](const Segment& at, int step, const Ring<Shape>& to) {
          tma_load(to.second(), in[at.product], step * kRingStep, at.first_row, &to.full[to.place]);
        });
  }

  // A consumer warp group. begin() may be called before the previous kernels have finished.
  class Consumer {
   public:
    __device__ __forceinline__ Consumer(const PanelOperands&, int group) : group_(group) {}
    __device__ __forceinline__ void begin(const Segment&) {}
    __device__ __forceinline__ void multiply(const Segment& at, Ring<Shape>& ring, PanelSums<Shape>& sum) {
      const bool speaks = threadIdx.x % kWarp == 0;
      uint64_t* previous = nullptr;  // the stage whose products may not have finished
      for (int step = 0; step < at.steps; step++) {
        wait_until_full<Shape::kSlices>(ring);
        const unsigned char* weights =
            ring.first() + static_cast<size_t>(group_) * Shape::kOutTiles * kGroupOuts * kRingStep * 2;
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kRingStep; k += 16) {
          const uint64_t in = wgmma_matrix(ring.second(), k);
#pragma unroll
          for (int m = 0; m < Shape::kOutTiles; m++) {
            wgmma<T, Shape::kRows>(sum[m], wgmma_matrix(weights + m * kGroupOuts * kRingStep * 2, k), in,
                                   step > 0 || k > 0);
          }
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (previous != nullptr && speaks) mbarrier_arrive(previous);
        previous = &ring.empty[ring.place];
        ring.next();
      }
      wgmma_wait<0>();
      if (previous != nullptr && speaks) mbarrier_arrive(previous);
      pin_sums<Shape>(sum);
    }

   private:
    int group_;
  };
};

template <class T, class Shape>
PanelOperands<T, Shape> panel_operands_of(GemmList list) {
  PanelOperands<T, Shape> operands{};
  int i = 0;
  for (const Gemm& one : list) {
    const Tensor weight{const_cast<void*>(one.weight.data), one.in.dtype, one.weight.out, one.weight.in,
                        one.weight.in};
    operands.weight[i] = tensor_map(weight, Shape::kOuts);
    operands.in[i++] = tensor_map(one.in, Shape::kRows);
  }
  return operands;
}

}  // namespace fulmar::gpu
