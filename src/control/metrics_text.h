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

// One text in which each family appears once, with the samples of all sources; each sample gets the label
// worker="<label>" in front of its own. Lines that are no samples and no HELP or TYPE are left out.
std::string merge_metrics(const std::vector<LabelledMetrics>& sources);

// The sum of all samples called `name`, or nothing when there is none.
std::optional<double> metric_value(std::string_view text, std::string_view name);

// A histogram's cumulative counts by upper bound, ascending, the last bound being infinity.
struct Buckets {
  std::vector<std::pair<double, double>> counts;
};

Buckets read_buckets(std::string_view text, std::string_view name);

// The value below which the share `q` of the observations lies that are in `now` and not in `before`,
// interpolated within a bucket; nothing when there were none. A `before` of other bounds, or with larger
// counts (the worker has been restarted), counts as empty.
std::optional<double> quantile_between(const Buckets& before, const Buckets& now, double q);

}  // namespace fulmar
