// Runs a test once for every instruction set that this processor has, as on a processor that has none beyond.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "cpu/simd_targets.h"
// Highway's targets behind the list of those that are built.
#include "hwy/targets.h"

namespace fulmar::support {

template <class Body>
void for_each_target(Body body) {
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t rest = supported; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    // Bits count from the best: kernels that are not built for this one fall back as they do elsewhere.
    hwy::SetSupportedTargetsForTest(supported & ~(target - 1));
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace fulmar::support
