// Rings of samples and their JSON: one array per figure, as a chart wants them.
#include "control/history.h"

#include <algorithm>
#include <iterator>

#include "net/json_writer.h"

namespace fulmar {
namespace {

template <class Figure>
void write_series(JsonWriter& json, const char* name, const std::vector<HistorySample>& samples, Figure of) {
  json.key(name).begin_array();
  for (const HistorySample& sample : samples) json.value(of(sample));
  json.end_array();
}

void write_seconds(JsonWriter& json, const char* name, const std::vector<HistorySample>& samples,
                   std::optional<double> HistorySample::*figure) {
  json.key(name).begin_array();
  for (const HistorySample& sample : samples) {
    if (const auto& seconds = sample.*figure) {
      json.value(*seconds);
    } else {
      json.null();
    }
  }
  json.end_array();
}

}  // namespace

void History::add(const std::string& worker, const HistorySample& sample) {
  std::lock_guard lock(mutex_);
  auto& ring = samples_[worker];
  ring.push_back(sample);
  if (ring.size() > most_samples_) ring.pop_front();
}

void History::keep_only(const std::vector<std::string>& workers) {
  std::lock_guard lock(mutex_);
  std::erase_if(samples_, [&](const auto& entry) {
    return std::find(workers.begin(), workers.end(), entry.first) == workers.end();
  });
}

std::string History::json(double since) const {
  JsonWriter json;
  json.begin_object().key("workers").begin_object();
  std::lock_guard lock(mutex_);
  for (const auto& [worker, ring] : samples_) {
    std::vector<HistorySample> samples;
    std::copy_if(ring.begin(), ring.end(), std::back_inserter(samples),
                 [&](const HistorySample& sample) { return sample.time > since; });
    json.key(worker).begin_object();
    using S = const HistorySample&;
    write_series(json, "time", samples, [](S s) { return s.time; });
    write_series(json, "tokens_per_second", samples, [](S s) { return s.tokens_per_second; });
    write_seconds(json, "ttft_p50", samples, &HistorySample::ttft_p50);
    write_seconds(json, "ttft_p95", samples, &HistorySample::ttft_p95);
    write_series(json, "rows_waiting", samples, [](S s) { return s.rows_waiting; });
    write_series(json, "rows_running", samples, [](S s) { return s.rows_running; });
    write_series(json, "memory_bytes", samples, [](S s) { return s.memory_bytes; });
    json.end_object();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace fulmar
