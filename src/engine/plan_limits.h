// The limits of a model's steps, in the planner's plain numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan.h"
#include "model/model.h"

namespace fulmar {

// Returns how many prompt rows take the time of one decoding row on a GPU that does not overlap
// arithmetic with memory traffic: both are multiplied by all weights, but a decoding row also reads and
// writes a state. At least 1.
double prompt_rows_per_row(const ModelConfig& config, const StateLayout& layout);

// A prompt is long if it takes more than kLongSteps steps of prompt rows alone. most_long_prompts returns how
// many of these run at once: all slots but one in eight (at least one, where there are two), which are left
// for short requests.
constexpr int64_t kLongSteps = 16;
bool is_long_prompt(size_t tokens, const PlanLimits& limits);
int64_t most_long_prompts(int64_t slots);

// Returns the limits of a model's steps. `prefill_chunk`: most prompt rows of a step.
PlanLimits plan_limits(const Model& model, int64_t prefill_chunk);

}  // namespace fulmar
