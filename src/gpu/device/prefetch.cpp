#include "gpu/device/prefetch.h"

#include <algorithm>

namespace fulmar::gpu {

Prefetch prefetch_of(std::initializer_list<const Weight*> weights, const PrefetchDepths& depths) {
  Prefetch wanted;
  const Weight& first = **weights.begin();
  const PrefetchDepth& depth = first.plain16() ? depths.plain16 : depths.codes;
  const auto bytes = [](const Weight& weight) {
    return weight.data == nullptr ? 0 : static_cast<int64_t>(weight.bytes());
  };
  if (bytes(first) < depth.least_share * depth.bytes) return wanted;
  int i = 0;
  for (const Weight* weight : weights) {
    wanted.data[i] = weight->data;
    wanted.bytes[i++] = static_cast<uint32_t>(std::min(depth.bytes, bytes(*weight)) / 16 * 16);
  }
  return wanted;
}

}  // namespace fulmar::gpu
