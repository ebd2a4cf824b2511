// Shares what masks cost among the rows that want one: masks are made on the engine's thread, and rows of
// costly ones are not to hold up the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/ask.h"

namespace fulmar {

// A row whose next token is drawn under a mask.
struct MaskItem {
  TokenMask* mask = nullptr;
  int64_t waited = 0;  // steps, for its mask
};

struct MaskLimits {
  // So few masks that are not ready may be made while the device computes.
  size_t made_meanwhile = 2;
  // Of more, as many are made before the step as take this much work together, the last one counted in part;
  // docs/operations.md tells the time of it.
  size_t work = 500'000;
};

// Which rows draw in this step; the others wait. Ready ones draw, and those that have waited longest have
// their masks made first: at least one.
std::vector<bool> share_mask_work(std::span<const MaskItem> items, const MaskLimits& limits = {});

}  // namespace fulmar
