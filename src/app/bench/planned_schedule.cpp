#include "app/bench/planned_schedule.h"

#include <algorithm>
#include <numeric>

#include "cache/prefix_cache.h"

namespace fulmar {
namespace {

// A request that has a slot.
struct PlannedRow {
  size_t request = 0;
  int64_t fed = 0;                // tokens of its prompt
  std::vector<size_t> snapshots;  // where its prompt pauses, ascending
  int64_t drawn = 0;              // tokens of its answer
  double last_token = 0;
};

class ScheduleRun {
 public:
  ScheduleRun(std::span<const ScheduledRequest> requests, const StepTimes& times, const PlanLimits& limits)
      : requests_(requests), times_(times), limits_(limits) {
    schedule_.first_token.resize(requests.size());
  }

  void admit(size_t request) {
    rows_.push_back({.request = request,
                     .snapshots = snapshot_points(static_cast<size_t>(requests_[request].prompt), 0, 0)});
  }

  void step() {
    std::vector<PlanItem> items;
    for (const PlannedRow& row : rows_) items.push_back(item(row));
    const std::vector<int64_t> feed = plan_step(items, limits_);
    int64_t decoding = 0, prompt_rows = 0;
    for (size_t i = 0; i < feed.size(); i++) (items[i].decoding ? decoding : prompt_rows) += feed[i];
    const double seconds = step_seconds(times_, decoding, prompt_rows);
    schedule_.longest_step = std::max(schedule_.longest_step, seconds);
    now += seconds;
    for (size_t i = 0; i < feed.size(); i++) {
      if (feed[i] > 0) take(rows_[i], feed[i]);
    }
    std::erase_if(rows_, [&](const PlannedRow& row) { return row.drawn >= requests_[row.request].answer; });
  }

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  PlannedSchedule result() && {
    schedule_.seconds = now;
    return std::move(schedule_);
  }

  double now = 0;

 private:
  PlanItem item(const PlannedRow& row) const {
    if (row.drawn > 0) return {.to_feed = 1, .decoding = true};
    PlanItem prompt{.to_feed = requests_[row.request].prompt - row.fed};
    if (!row.snapshots.empty()) prompt.until_pause = static_cast<int64_t>(row.snapshots.front()) - row.fed;
    return prompt;
  }

  // Advances the row after a step that has fed it `fed` tokens.
  void take(PlannedRow& row, int64_t fed) {
    const ScheduledRequest& request = requests_[row.request];
    if (row.drawn == 0) {
      row.fed += fed;
      std::erase_if(row.snapshots, [&](size_t point) { return static_cast<int64_t>(point) <= row.fed; });
      if (row.fed < request.prompt) return;
      schedule_.first_token[row.request] = now - request.at;
    } else {
      schedule_.gaps.push_back(now - row.last_token);
    }
    row.last_token = now;
    row.drawn++;
  }

  std::span<const ScheduledRequest> requests_;
  const StepTimes& times_;
  const PlanLimits& limits_;
  std::vector<PlannedRow> rows_;  // in order of arrival
  PlannedSchedule schedule_;
};

}  // namespace

PlannedSchedule planned_schedule(std::span<const ScheduledRequest> requests, const StepTimes& times,
                                 int64_t slots, const PlanLimits& limits) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].at < requests[b].at; });
  ScheduleRun run(requests, times, limits);
  for (size_t next = 0; next < order.size() || run.rows() > 0; run.step()) {
    if (run.rows() == 0) run.now = std::max(run.now, requests[order[next]].at);
    while (next < order.size() && run.rows() < slots && requests[order[next]].at <= run.now)
      run.admit(order[next++]);
  }
  return std::move(run).result();
}

}  // namespace fulmar
