#include "load/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fulmar {

double quantile(std::span<const double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = place - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto count = static_cast<double>(samples.size());
  Summary summary{.count = samples.size()};
  summary.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : samples) squares += (sample - summary.mean) * (sample - summary.mean);
  summary.deviation = std::sqrt(squares / count);
  summary.median = quantile(samples, 0.5);
  summary.p99 = quantile(samples, 0.99);
  return summary;
}

}  // namespace fulmar
