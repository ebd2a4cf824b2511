// Figures of the last hour, for the charts. Written by the supervisor's thread, read by any.
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

class History {
 public:
  explicit History(size_t most_samples = 720) : most_samples_(most_samples) {}

  void add(const std::string& worker, const HistorySample& sample);
  // Forgets the samples of workers that are not in `workers`.
  void keep_only(const std::vector<std::string>& workers);
  // {"workers":{"<id>":{"time":[...],"tokens_per_second":[...],...}}}; the samples after `since`.
  std::string json(double since) const;

 private:
  const size_t most_samples_;  // of each worker
  mutable std::mutex mutex_;
  std::map<std::string, std::deque<HistorySample>> samples_;
};

}  // namespace fulmar
