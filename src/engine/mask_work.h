// Divides the cost of masks among the rows that need one: masks are computed on the engine's thread, and rows
// with expensive ones must not delay the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/ask.h"

namespace fulmar {

// A row whose next token is drawn with a mask.
struct MaskItem {
  TokenMask* mask = nullptr;
  int64_t waited = 0;  // steps spent waiting for its mask
};

struct MaskLimits {
  // Up to this many unready masks may be computed while the device runs.
  size_t made_meanwhile = 2;
  // Of more, the step waits for as many as cost this much together, the last one partly; docs/operations.md
  // gives the time.
  size_t work = 500'000;
};

// Returns which rows draw in this step; the others wait. Ready rows draw; masks are computed for those that
// have waited longest, at least one.
std::vector<bool> share_mask_work(std::span<const MaskItem> items, const MaskLimits& limits = {});

}  // namespace fulmar
