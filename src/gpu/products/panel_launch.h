// How launches of panels are planned and launched, whatever their operands.
#pragma once

#include <span>

#include "gpu/products/kernels.h"
#include "gpu/products/resources.h"
#include "gpu/products/sm90/float8_inputs.h"
#include "gpu/products/sm90/panels.h"

namespace fulmar::gpu {

struct PanelLaunch {
  const Kernel* kernel;  // by_panels is true of it
  ProductList products;
  std::span<const Float8Input> inputs = {};  // codes of the inputs, where the kernel takes such
};

bool by_panels(const Kernel*);

// Returns how many counters a launch wants: whole tiles want none.
inline size_t counters_of(const PanelPlan& plan) {
  return plan.steps_each == 0 ? 0 : static_cast<size_t>(plan.tiles);
}

PanelPlan plan_of(const PanelLaunch&, const PanelRoom&, bool whole = false);
void launch_panels(const Queue&, const PanelLaunch&, const PanelPlan&, const PanelWork&);

// Plans, takes working memory and launches. On side queues tiles stay whole: what a divided sum wants belongs
// to the main queue.
void run_panels(const GemmResources&, const Queue&, const PanelLaunch&);

}  // namespace fulmar::gpu
