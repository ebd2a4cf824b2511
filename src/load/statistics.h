// Figures over samples of time. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fulmar {

struct Summary {
  size_t count = 0;
  double mean = 0;
  double deviation = 0;  // of the population
  double median = 0;
  double p99 = 0;
};

// Returns the figures of samples; all zero without samples.
Summary summarize(std::vector<double> samples);

// Returns the value below which the fraction `q` (0 to 1) of `sorted` lies, interpolated between neighbours;
// `sorted` is ascending and not empty.
double quantile(std::span<const double> sorted, double q);

}  // namespace fulmar
