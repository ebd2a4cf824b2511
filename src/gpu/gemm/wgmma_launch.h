// How the wgmma kernels are planned and launched, whatever their operands.
#pragma once

#include <span>

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/resources.h"
#include "gpu/gemm/sm90/fp8_inputs.h"
#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

struct WgmmaLaunch {
  const Kernel* kernel;  // by_wgmma is true of it
  GemmList products;
  std::span<const Float8Input> inputs = {};  // E4M3 codes of the inputs, for the kernel that takes them
};

bool by_wgmma(const Kernel*);  // whether it is one of the wgmma kernels

// Returns how many counters a launch needs: none if blocks take whole tiles.
inline size_t counters_of(const WgmmaPlan& plan) {
  return plan.steps_each == 0 ? 0 : static_cast<size_t>(plan.tiles);
}

WgmmaPlan plan_of(const WgmmaLaunch&, const WgmmaRoom&, bool whole = false);  // whole: whole tiles only
void launch_by_wgmma(const Queue&, const WgmmaLaunch&, const WgmmaPlan&, const WgmmaWork&);

// Plans the launch, takes working memory and enqueues it. On side queues blocks take whole tiles, because the
// working memory of split sums belongs to the main queue.
void run_wgmma(const GemmResources&, const Queue&, const WgmmaLaunch&);

}  // namespace fulmar::gpu
