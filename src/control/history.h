// Figures for the charts: samples of the last hour as they were taken, and one a minute for a day, which a
// file keeps over restarts of the control plane. Written by the supervisor's thread, read by any.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fulmar {

struct HistorySample {
  double time = 0;  // seconds since 1970
  double tokens_per_second = 0;
  std::optional<double> ttft_p50, ttft_p95;  // seconds; nothing when no answer began in the interval
  int64_t rows_waiting = 0;
  int64_t rows_running = 0;
  uint64_t memory_bytes = 0;
};

// Combines the samples of one minute, at least one: means of rates and medians, maxima of the rest. Pure.
HistorySample minute_of(const std::vector<HistorySample>& samples);

class History {
 public:
  static constexpr size_t kMostMinutes = 1440;

  // Reads and keeps the minutes in `file`; empty: in no file. A file that cannot be read or written counts as
  // none, with a warning.
  explicit History(std::string file = {}, size_t most_samples = 720);

  // Adds a sample; a series is named by its worker's name or, without one, by its id.
  void add(const std::string& series, const HistorySample& sample);
  // Forgets the fine samples of series that are not in `kept`; minutes go after a day.
  void keep_only(const std::vector<std::string>& kept);
  // Returns {"workers":{"<series>":{"time":[...],"tokens_per_second":[...],...}}}: the samples after `since`
  // or, if `minutes`, one per minute.
  std::string json(double since, bool minutes = false) const;

 private:
  using Rings = std::map<std::string, std::deque<HistorySample>>;

  void read_file();
  void write_file();  // whole
  void add_minute(const std::string& series, const HistorySample& minute);

  const std::string file_;
  const size_t most_samples_;  // of each series
  mutable std::mutex mutex_;
  Rings samples_;
  Rings minutes_;
  std::map<std::string, std::vector<HistorySample>> open_;  // samples of the minute under way
  size_t lines_ = 0;                                        // in the file
};

}  // namespace fulmar
