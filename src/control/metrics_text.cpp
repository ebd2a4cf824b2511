// A small reader of the text exposition format.
#include "control/metrics_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

namespace fulmar {
namespace {

struct Sample {
  std::string_view name;
  std::string_view labels;  // between the braces, possibly empty
  std::string_view rest;    // value and time stamp
};

// Calls use(line) for each line without its end.
template <class Use>
void each_line(std::string_view text, Use use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// Returns the position of the brace that closes the labels; quoted values may contain braces.
size_t closing_brace(std::string_view line, size_t from) {
  bool quoted = false;
  for (size_t i = from; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == '}' && !quoted) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::optional<Sample> read_sample(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == 0 || name_end == std::string_view::npos) return std::nullopt;
  Sample sample{.name = line.substr(0, name_end)};
  size_t after = name_end;
  if (line[name_end] == '{') {
    const size_t close = closing_brace(line, name_end + 1);
    if (close == std::string_view::npos) return std::nullopt;
    sample.labels = line.substr(name_end + 1, close - name_end - 1);
    if (sample.labels.ends_with(',')) sample.labels.remove_suffix(1);
    after = close + 1;
  }
  while (after < line.size() && line[after] == ' ') ++after;
  if (after == line.size()) return std::nullopt;
  sample.rest = line.substr(after);
  return sample;
}

double number_of(std::string_view rest) { return std::strtod(std::string(rest).c_str(), nullptr); }

// Returns the metric of a "# HELP name ..." or "# TYPE name ..." line.
std::string_view family_of(std::string_view line) {
  for (const std::string_view prefix : {"# HELP ", "# TYPE "}) {
    if (!line.starts_with(prefix)) continue;
    line.remove_prefix(prefix.size());
    return line.substr(0, line.find(' '));
  }
  return {};
}

std::string quoted_label(std::string_view value) {
  std::string text = "\"";
  for (const char byte : value) {
    if (byte == '"' || byte == '\\') text.push_back('\\');
    if (byte != '\n') text.push_back(byte);
  }
  return text + '"';
}

struct FamilySamples {
  std::string header;
  std::string samples;
};

class Merger {
 public:
  void take(const LabelledMetrics& source) {
    const std::string label = "worker=" + quoted_label(source.label);
    std::string current;  // samples before any header stand under the empty name
    each_line(source.text, [&](std::string_view line) {
      if (const std::string_view name = family_of(line); !name.empty()) {
        current = name;
        add_header(current, line);
      } else if (const auto sample = read_sample(line)) {
        std::string& out = family(current).samples;
        out.append(sample->name).append("{").append(label);
        if (!sample->labels.empty()) out.append(",").append(sample->labels);
        out.append("} ").append(sample->rest).append("\n");
      }
    });
  }

  std::string text() const {
    std::string merged;
    for (const std::string& name : order_) {
      const FamilySamples& family = families_.at(name);
      merged.append(family.header).append(family.samples);
    }
    return merged;
  }

 private:
  FamilySamples& family(const std::string& name) {
    const auto [place, is_new] = families_.try_emplace(name);
    if (is_new) order_.push_back(name);
    return place->second;
  }
  void add_header(const std::string& name, std::string_view line) {
    FamilySamples& target = family(name);
    const std::string_view kind = line.substr(0, 7);  // HELP or TYPE, once each
    if (target.header.find(kind) == std::string::npos) target.header.append(line).append("\n");
  }

  std::map<std::string, FamilySamples> families_;
  std::vector<std::string> order_;
};

std::optional<double> bound_of(std::string_view labels) {
  const size_t at = labels.find("le=\"");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view value = labels.substr(at + 4, labels.find('"', at + 4) - at - 4);
  if (value == "+Inf") return std::numeric_limits<double>::infinity();
  return number_of(value);
}

bool continues(const Buckets& before, const Buckets& now) {
  if (before.counts.size() != now.counts.size()) return false;
  for (size_t i = 0; i < now.counts.size(); ++i) {
    if (before.counts[i].first != now.counts[i].first) return false;
    if (before.counts[i].second > now.counts[i].second) return false;
  }
  return true;
}

}  // namespace

std::string merge_metrics(const std::vector<LabelledMetrics>& sources) {
  Merger merger;
  for (const LabelledMetrics& source : sources) merger.take(source);
  return merger.text();
}

std::optional<double> metric_value(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  each_line(text, [&](std::string_view line) {
    const auto sample = read_sample(line);
    if (sample && sample->name == name) sum = sum.value_or(0) + number_of(sample->rest);
  });
  return sum;
}

Buckets read_buckets(std::string_view text, std::string_view name) {
  const std::string wanted = std::string(name) + "_bucket";
  std::map<double, double> counts;  // histograms with further labels are added up
  each_line(text, [&](std::string_view line) {
    const auto sample = read_sample(line);
    if (!sample || sample->name != wanted) return;
    if (const auto bound = bound_of(sample->labels)) counts[*bound] += number_of(sample->rest);
  });
  return {{counts.begin(), counts.end()}};
}

std::optional<double> quantile_between(const Buckets& before, const Buckets& now, double q) {
  const bool subtract = continues(before, now);
  const auto count = [&](size_t i) {
    return now.counts[i].second - (subtract ? before.counts[i].second : 0.0);
  };
  if (now.counts.empty()) return std::nullopt;
  const double total = count(now.counts.size() - 1);
  if (!(total > 0)) return std::nullopt;
  const double wanted = q * total;
  double lower = 0, seen = 0;
  for (size_t i = 0; i < now.counts.size(); ++i) {
    const double upper = now.counts[i].first;
    const double reached = count(i);
    if (reached >= wanted && reached > seen) {
      if (!std::isfinite(upper)) return lower;
      return lower + (upper - lower) * (wanted - seen) / (reached - seen);
    }
    seen = reached;
    lower = upper;
  }
  return lower;
}

}  // namespace fulmar
