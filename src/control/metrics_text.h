// Reading and merging of metrics in Prometheus' text form. Pure functions over text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fulmar {

struct LabelledMetrics {
  std::string label;  // value of the label that tells the sources apart
  std::string text;
};

// Merges the sources into one text with each family once; each sample gets the label worker="<label>" before
// its own. Drops lines that are neither samples nor HELP nor TYPE.
std::string merge_metrics(const std::vector<LabelledMetrics>& sources);

// Returns the sum of all samples called `name`; nothing where there is none.
std::optional<double> metric_value(std::string_view text, std::string_view name);

// A histogram's cumulative counts by upper bound, ascending, the last bound being infinity.
struct Buckets {
  std::vector<std::pair<double, double>> counts;
};

Buckets read_buckets(std::string_view text, std::string_view name);

// Returns the quantile `q` of the observations in `now` that are not in `before`, interpolated within a
// bucket; nothing where there are none. A `before` of other bounds, or with larger counts (the worker has
// been restarted), counts as empty.
std::optional<double> quantile_between(const Buckets& before, const Buckets& now, double q);

}  // namespace fulmar
