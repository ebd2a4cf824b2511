// The rule.
#include "cpu/linear_way.h"

#include <limits>

namespace fulmar {

int64_t most_coded_rows(const LinearMode& mode) {
  // From codes the order is the same for any number of rows.
  if (mode.order == LinearOrder::fixed) return std::numeric_limits<int64_t>::max();
  switch (mode.activations) {
    case CodedActivations::bits22:
      return 4;
    case CodedActivations::bits15:
      return 8;
    case CodedActivations::bits8:
      break;
  }
  return std::numeric_limits<int64_t>::max();
}

LinearWay linear_way(int64_t rows, const Weight& weight, const LinearMode& mode) {
  if (weight.transposed) return rows <= most_coded_rows(mode) ? LinearWay::coded : LinearWay::decoded;
  if (mode.order == LinearOrder::fixed || rows <= kMostDotRows) return LinearWay::dot;
  return LinearWay::panels;
}

}  // namespace fulmar
