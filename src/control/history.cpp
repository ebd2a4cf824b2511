// Rings of samples, the file of minutes, and their JSON: one array per figure, as a chart wants them.
#include "control/history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/read_file.h"
#include "base/unix_time.h"
#include "base/write_file.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr double kDay = 86'400;
constexpr size_t kMostBytes = size_t{64} << 20;  // of the file that are read
constexpr size_t kMostLines = 40'000;  // of the file, before what is older than a day is dropped from it

template <class Figure>
void write_series(JsonWriter& json, const char* name, const std::vector<HistorySample>& samples, Figure of) {
  json.key(name).begin_array();
  for (const HistorySample& sample : samples) json.value(of(sample));
  json.end_array();
}

void write_value(JsonWriter& json, const std::optional<double>& seconds) {
  if (seconds) {
    json.value(*seconds);
  } else {
    json.null();
  }
}

void write_seconds(JsonWriter& json, const char* name, const std::vector<HistorySample>& samples,
                   std::optional<double> HistorySample::*figure) {
  json.key(name).begin_array();
  for (const HistorySample& sample : samples) write_value(json, sample.*figure);
  json.end_array();
}

// Returns one line of the file:
// ["series",time,tokens_per_second,ttft_p50,ttft_p95,rows_waiting,rows_running,memory_bytes]
std::string line_of(const std::string& series, const HistorySample& minute) {
  JsonWriter json;
  json.begin_array().value(series).value(minute.time).value(minute.tokens_per_second);
  write_value(json, minute.ttft_p50);
  write_value(json, minute.ttft_p95);
  json.value(minute.rows_waiting).value(minute.rows_running).value(minute.memory_bytes).end_array();
  return json.take() + "\n";
}

std::optional<double> number_at(const JsonValue& row, size_t index) {
  return lenient_number(row.as_array()[index]);
}

// Parses a line of the file; nothing where it is malformed, such as one that a full disk cut off.
std::optional<std::pair<std::string, HistorySample>> read_line(const std::string& line) {
  const auto row = parse_json(line);
  if (!row.ok() || !row->is_array() || row->as_array().size() != 8 || !row->as_array()[0].is_string())
    return {};
  for (const size_t required : {1, 2, 5, 6, 7}) {
    if (!number_at(*row, required)) return {};
  }
  return std::pair(row->as_array()[0].as_string(),
                   HistorySample{.time = *number_at(*row, 1),
                                 .tokens_per_second = *number_at(*row, 2),
                                 .ttft_p50 = number_at(*row, 3),
                                 .ttft_p95 = number_at(*row, 4),
                                 .rows_waiting = static_cast<int64_t>(*number_at(*row, 5)),
                                 .rows_running = static_cast<int64_t>(*number_at(*row, 6)),
                                 .memory_bytes = static_cast<uint64_t>(std::max(0.0, *number_at(*row, 7)))});
}

int64_t minute_number(double time) { return static_cast<int64_t>(std::floor(time / 60)); }

}  // namespace

HistorySample minute_of(const std::vector<HistorySample>& samples) {
  HistorySample minute = samples.back();
  double tokens = 0, medians = 0;
  int answered = 0;
  minute.ttft_p50.reset();
  for (const HistorySample& sample : samples) {
    tokens += sample.tokens_per_second;
    if (sample.ttft_p50) {
      medians += *sample.ttft_p50;
      ++answered;
    }
    if (sample.ttft_p95) minute.ttft_p95 = std::max(minute.ttft_p95.value_or(0), *sample.ttft_p95);
    minute.rows_waiting = std::max(minute.rows_waiting, sample.rows_waiting);
    minute.rows_running = std::max(minute.rows_running, sample.rows_running);
    minute.memory_bytes = std::max(minute.memory_bytes, sample.memory_bytes);
  }
  minute.tokens_per_second = tokens / static_cast<double>(samples.size());
  if (answered > 0) minute.ttft_p50 = medians / answered;
  return minute;
}

History::History(std::string file, size_t most_samples)
    : file_(std::move(file)), most_samples_(most_samples) {
  if (!file_.empty()) read_file();
}

void History::read_file() {
  std::istringstream in(read_if_there(file_, kMostBytes));
  const double oldest = unix_time() - kDay;
  for (std::string line; std::getline(in, line);) {
    ++lines_;
    if (auto entry = read_line(line); entry && entry->second.time > oldest) {
      auto& ring = minutes_[entry->first];
      ring.push_back(entry->second);
      if (ring.size() > kMostMinutes) ring.pop_front();
    }
  }
}

void History::write_file() {
  std::string text;
  lines_ = 0;
  for (const auto& [series, ring] : minutes_) {
    for (const HistorySample& minute : ring) {
      text += line_of(series, minute);
      ++lines_;
    }
  }
  const Status written = write_whole_file(file_, text);
  if (!written.ok()) spdlog::warn("figures: {}", written.error().text);
}

void History::add_minute(const std::string& series, const HistorySample& minute) {
  auto& ring = minutes_[series];
  ring.push_back(minute);
  while (ring.size() > kMostMinutes || ring.front().time < minute.time - kDay) ring.pop_front();
  if (file_.empty()) return;
  const Status written = append_to_file(file_, line_of(series, minute));
  if (!written.ok()) spdlog::warn("figures: {}", written.error().text);
  if (++lines_ > kMostLines) {
    std::erase_if(minutes_, [&](const auto& entry) { return entry.second.back().time < minute.time - kDay; });
    write_file();
  }
}

void History::add(const std::string& series, const HistorySample& sample) {
  std::lock_guard lock(mutex_);
  auto& ring = samples_[series];
  ring.push_back(sample);
  if (ring.size() > most_samples_) ring.pop_front();
  auto& open = open_[series];
  if (!open.empty() && minute_number(open.back().time) != minute_number(sample.time)) {
    add_minute(series, minute_of(open));
    open.clear();
  }
  open.push_back(sample);
}

void History::keep_only(const std::vector<std::string>& kept) {
  const auto forgotten = [&](const auto& entry) {
    return std::find(kept.begin(), kept.end(), entry.first) == kept.end();
  };
  std::lock_guard lock(mutex_);
  std::erase_if(samples_, forgotten);
  std::erase_if(open_, forgotten);
}

std::string History::json(double since, bool minutes) const {
  JsonWriter json;
  json.begin_object().key("workers").begin_object();
  std::lock_guard lock(mutex_);
  for (const auto& [series, ring] : minutes ? minutes_ : samples_) {
    std::vector<HistorySample> samples;
    std::copy_if(ring.begin(), ring.end(), std::back_inserter(samples),
                 [&](const HistorySample& sample) { return sample.time > since; });
    json.key(series).begin_object();
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
