// Computes how long a load would take if the engine's planner ran it and only the model's steps took time. A
// server's excess over this is the host's; the excess of this over the ideal schedule (load/ideal_schedule.h)
// is the planner's. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "load/ideal_schedule.h"

namespace fulmar {

struct PlannedSchedule {
  double seconds = 0;               // from the start to the last answer's end
  std::vector<double> first_token;  // of each request, in the order given: seconds after its arrival
  std::vector<double> gaps;         // seconds between two tokens of one answer, over all answers
  double longest_step = 0;          // seconds
};

// Returns the schedule. Requests start in order of arrival as slots (at least 1) become free. Prompts share
// no prefixes, and pause where the prefix cache would keep a copy; a step's tokens are known when it ends.
PlannedSchedule planned_schedule(std::span<const ScheduledRequest> requests, const StepTimes& times,
                                 int64_t slots, const PlanLimits& limits);

}  // namespace fulmar
