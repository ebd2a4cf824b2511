// What one step of a model has room for, in the planner's plain numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan.h"
#include "model/model.h"

namespace fulmar {

// Prompt rows that take as long as one row that decodes, on a GPU that computes where it does not move bytes:
// both are multiplied with all weights, but a row that decodes also reads and writes a state. At least 1.
double prompt_rows_per_row(const ModelConfig& config, const StateLayout& layout);

// Long prompts take more than kLongSteps steps of prompt rows alone. So many of them run at once at most: the
// rest of the slots, one in eight and at least one where there are two, is for requests that are soon over.
constexpr int64_t kLongSteps = 16;
bool is_long_prompt(size_t tokens, const PlanLimits& limits);
int64_t most_long_prompts(int64_t slots);

// `prefill_chunk`: most prompt rows of one step.
PlanLimits plan_limits(const Model& model, int64_t prefill_chunk);

}  // namespace fulmar
