// How long a load would take if the engine's planner ran it and nothing but the model's steps took time: what
// lies between the ideal schedule (load/ideal_schedule.h) and a server. What a server takes beyond this is
// the host's; what this takes beyond the ideal is the planner's. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "load/ideal_schedule.h"

namespace fulmar {

struct PlannedSchedule {
  double seconds = 0;               // from the start to the last answer's end
  std::vector<double> first_token;  // of each request, in the order given: seconds behind its arrival
  std::vector<double> gaps;         // seconds between two tokens of one answer, over all answers
  double longest_step = 0;          // seconds
};

// Requests start in order of arrival as slots (at least 1) come free. Prompts share no beginnings, and pause
// where the prefix cache would keep a copy; everybody knows a step's tokens when it ends.
PlannedSchedule planned_schedule(std::span<const ScheduledRequest> requests, const StepTimes& times,
                                 int64_t slots, const PlanLimits& limits);

}  // namespace fulmar
