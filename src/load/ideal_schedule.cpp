#include "load/ideal_schedule.h"

#include <algorithm>
#include <queue>

namespace fulmar {

double decode_seconds(const StepTimes& times, int64_t rows) {
  const auto& table = times.decode;
  const auto above = std::lower_bound(table.begin(), table.end(), rows,
                                      [](const auto& entry, int64_t wanted) { return entry.first < wanted; });
  if (above == table.end()) return table.back().second;
  if (above == table.begin() || above->first == rows) return above->second;
  const auto& [low_rows, low] = *(above - 1);
  const auto& [high_rows, high] = *above;
  const double share = static_cast<double>(rows - low_rows) / static_cast<double>(high_rows - low_rows);
  return low + (high - low) * share;
}

double step_seconds(const StepTimes& times, int64_t decoding, int64_t prompt_rows) {
  const auto rows = static_cast<double>(times.prefill_rows);
  const double each = 1 / times.prefill_tokens_per_second;
  const double reading = std::min(times.decode.front().second, rows * each);
  const double beyond = rows > 0 ? each - reading / rows : each;
  return (decoding > 0 ? decode_seconds(times, decoding) : reading) +
         static_cast<double>(prompt_rows) * beyond;
}

double ideal_seconds(std::vector<ScheduledRequest> requests, const StepTimes& times, int64_t slots) {
  std::sort(requests.begin(), requests.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  const auto shorter = [](const ScheduledRequest& a, const ScheduledRequest& b) {
    return a.answer < b.answer;
  };
  std::priority_queue<ScheduledRequest, std::vector<ScheduledRequest>, decltype(shorter)> waiting(shorter);
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends;  // decode step of each running row
  double now = 0;
  int64_t step = 0;
  for (size_t next = 0; next < requests.size() || !waiting.empty() || !ends.empty();) {
    if (waiting.empty() && ends.empty()) now = std::max(now, requests[next].at);
    while (next < requests.size() && requests[next].at <= now) waiting.push(requests[next++]);
    while (!waiting.empty() && static_cast<int64_t>(ends.size()) < slots) {
      now += static_cast<double>(waiting.top().prompt) / times.prefill_tokens_per_second;
      if (waiting.top().answer > 1) ends.push(step + waiting.top().answer - 1);
      waiting.pop();
    }
    if (ends.empty()) continue;
    now += decode_seconds(times, static_cast<int64_t>(ends.size()));
    step++;
    while (!ends.empty() && ends.top() <= step) ends.pop();
  }
  return now;
}

}  // namespace fulmar
