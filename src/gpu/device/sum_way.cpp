#include "gpu/device/sum_way.h"

namespace fulmar::gpu {

namespace {

// The algorithm for up to `bytes` among up to `ranks`; the first line that fits is used.
struct Line {
  int64_t ranks, bytes;
  SumWay way;
};
constexpr Line kLines[] = {
    {2, kMostFlaggedBytes, SumWay::flagged},
    {2, INT64_MAX, SumWay::one_shot},
    {4, int64_t{128} << 10, SumWay::flagged},
    {INT64_MAX, int64_t{32} << 10, SumWay::flagged},
};

}  // namespace

SumWay sum_way(int64_t ranks, int64_t bytes) {
  for (const Line& line : kLines) {
    if (ranks <= line.ranks && bytes <= line.bytes) return line.way;
  }
  return SumWay::two_shot;
}

bool pulls_addends(int64_t ranks, int64_t bytes) { return ranks == 2 && bytes > kMostFlaggedBytes; }

}  // namespace fulmar::gpu
