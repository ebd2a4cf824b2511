#include "engine/mask_work.h"

#include <algorithm>

namespace fulmar {

std::vector<bool> share_mask_work(std::span<const MaskItem> items, const MaskLimits& limits) {
  std::vector<bool> draws(items.size(), true);
  std::vector<size_t> costly;
  for (size_t i = 0; i < items.size(); i++) {
    if (!items[i].mask->ready()) costly.push_back(i);
  }
  if (costly.size() <= limits.made_meanwhile) return draws;
  std::stable_sort(costly.begin(), costly.end(),
                   [&](size_t a, size_t b) { return items[a].waited > items[b].waited; });
  size_t work = 0;
  for (const size_t i : costly) {
    draws[i] = work < limits.work;
    if (draws[i]) work += items[i].mask->prepare();
  }
  return draws;
}

}  // namespace fulmar
