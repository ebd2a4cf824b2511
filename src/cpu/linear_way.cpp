// The rule.
#include "cpu/linear_way.h"

#include "cpu/linear_coded.h"

namespace fulmar {

LinearWay linear_way(int64_t rows, const Weight& weight, LinearOrder order) {
  if (order == LinearOrder::fixed) return LinearWay::dot;
  if (rows > kMostDotRows) return LinearWay::panels;
  if (rows <= kMostCodedRows && multiplies_codes(weight)) return LinearWay::coded;
  return LinearWay::dot;
}

}  // namespace fulmar
