// Shapes that the cases of primitives run over, and their names.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/ops_cases.h"

namespace fulmar::support {

using Cases = std::vector<OpsCase>;

struct HeadShape {
  int64_t n_head, head_size;
  int64_t width() const { return n_head * head_size; }
};
inline const HeadShape kHeadShapes[] = {{1, 64}, {4, 64}, {8, 8}, {3, 16}};
inline const std::vector<std::vector<int32_t>> kLengths = {{1}, {17}, {1, 1, 1, 1, 1}, {3, 1, 15, 16}, {300}};

inline std::string text(const std::vector<int32_t>& lengths) {
  std::string out;
  for (const int32_t length : lengths) {
    if (!out.empty()) out += '_';
    out += std::to_string(length);
  }
  return out;
}

inline std::string text(const HeadShape& shape) {
  return std::to_string(shape.n_head) + "x" + std::to_string(shape.head_size);
}

inline int64_t sum(const std::vector<int32_t>& lengths) {
  int64_t total = 0;
  for (const int32_t length : lengths) total += length;
  return total;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Key preparation, bonus and the recurrences (recurrence_cases.cpp).
void add_recurrences(Cases& cases);

}  // namespace fulmar::support
