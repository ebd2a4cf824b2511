#include "engine/plan_limits.h"

#include <algorithm>

#include "model/roofline.h"

namespace fulmar {

namespace {

// Operations in the time that one byte is copied: 150 on an H200 (620 TFLOP/s of large GEMMs, 4.1 TB/s), 100
// to 200 by the data sheets of other cards. The constant is lower, since a mixed step has other overheads.
constexpr double kFlopPerByte = 120;

}  // namespace

double prompt_rows_per_row(const ModelConfig& config, const StateLayout& layout) {
  const StepWork row = step_work(config, layout, {.rows = 1, .sequences = 1, .wanted = 1}, 0);
  return 1 + kFlopPerByte * row.state_bytes / row.flop();
}

bool is_long_prompt(size_t tokens, const PlanLimits& limits) {
  return tokens / kLongSteps > static_cast<size_t>(limits.prefill_chunk);
}

int64_t most_long_prompts(int64_t slots) {
  return std::max<int64_t>(1, slots - std::max<int64_t>(1, slots / 8));
}

PlanLimits plan_limits(const Model& model, int64_t prefill_chunk) {
  return {.max_rows = model.max_rows(),
          .prefill_chunk = prefill_chunk,
          .max_wanted = model.max_wanted(),
          .prompt_rows_per_row = prompt_rows_per_row(model.config(), model.state_layout())};
}

}  // namespace fulmar
