#include "gpu/device/prefetch.h"

#include <algorithm>

namespace fulmar::gpu {

Prefetch prefetch_of(std::initializer_list<const Weight*> weights, int64_t most) {
  Prefetch wanted;
  const auto bytes = [](const Weight& weight) {
    return weight.data == nullptr ? 0 : static_cast<int64_t>(weight.bytes());
  };
  if (bytes(**weights.begin()) < kLeastPrefetchShare * most) return wanted;
  int i = 0;
  for (const Weight* weight : weights) {
    wanted.data[i] = weight->data;
    wanted.bytes[i++] = static_cast<uint32_t>(std::min(most, bytes(*weight)) / 16 * 16);
  }
  return wanted;
}

}  // namespace fulmar::gpu
