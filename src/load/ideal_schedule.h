// How long a load would take if nothing but the model's steps took time: what a scheduler is measured
// against. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fulmar {

// Measured step times of one model: (rows, seconds) of decode steps in ascending order of rows, at least one,
// and the rate at which prompts alone are fed, in steps of so many rows.
struct StepTimes {
  std::vector<std::pair<int64_t, double>> decode;
  double prefill_tokens_per_second = 0;  // > 0
  int64_t prefill_rows = 0;              // 0: the rate holds for any number of rows
};

// Seconds of a decode step of so many rows (at least 1): linear between measured neighbours, the nearest
// beyond them.
double decode_seconds(const StepTimes& times, int64_t rows);

// Seconds of a step of `decoding` rows and so many prompt rows, at least one of either. The least of all
// decode steps is about what reading the weights takes; a step reads them once, whatever its rows are. Beyond
// that prompt rows take what they take in the step at which their rate was measured, and decoding rows what
// they take without prompts: states are read and written for these alone, and products of both are additive
// where arithmetic binds them. Where the reading does, some dozen rows in all, a little more would be free.
double step_seconds(const StepTimes& times, int64_t decoding, int64_t prompt_rows);

struct ScheduledRequest {
  double at = 0;       // seconds after the start at which it arrives
  int64_t prompt = 0;  // tokens
  int64_t answer = 0;  // tokens, at least 1; the first comes out of the prompt's last row
};

// Seconds from the start to the last answer's end, with at most `slots` (at least 1) sequences at once. A
// free slot takes the waiting request with the longest answer (longest processing time first, so that few
// rows are left alone at the end), feeds its prompt at the full rate, and then all running rows decode
// together.
double ideal_seconds(std::vector<ScheduledRequest> requests, const StepTimes& times, int64_t slots);

}  // namespace fulmar
