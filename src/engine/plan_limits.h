// What one step of a model has room for, in the planner's plain numbers.
#pragma once

#include "engine/plan.h"
#include "model/model.h"

namespace fulmar {

// Prompt rows that take as long as one row that decodes, on a GPU that computes where it does not move bytes:
// both are multiplied with all weights, but a row that decodes also reads and writes a state. At least 1.
double prompt_rows_per_row(const ModelConfig& config, const StateLayout& layout);

// `prefill_chunk`: most prompt rows of one step.
PlanLimits plan_limits(const Model& model, int64_t prefill_chunk);

}  // namespace fulmar
