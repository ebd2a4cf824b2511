// Computes how long a load would take if only the model's steps took time, as a yardstick for schedulers.
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fulmar {

// Measured step times of one model: (rows, seconds) of decode steps in ascending order of rows, at least one,
// and the rate at which prompts alone are fed, in steps of `prefill_rows` rows.
struct StepTimes {
  std::vector<std::pair<int64_t, double>> decode;
  double prefill_tokens_per_second = 0;  // > 0
  int64_t prefill_rows = 0;              // 0: the rate holds for any number of rows
};

// Returns the seconds of a decode step of `rows` rows (at least 1): linear between measured neighbours, the
// nearest one outside of them.
double decode_seconds(const StepTimes& times, int64_t rows);

// Returns the seconds of a step of `decoding` rows and `prompt_rows` prompt rows, at least one of either. A
// step reads the weights once for all rows, in about the time of the shortest decode step. Beyond that,
// prompt rows take what they take in the step whose rate was measured, and decoding rows what they take
// alone: only these read and write states, and the GEMM times of both add up where arithmetic is the limit.
// (Where memory is, up to some dozen rows, a few more would be free.)
double step_seconds(const StepTimes& times, int64_t decoding, int64_t prompt_rows);

struct ScheduledRequest {
  double at = 0;       // seconds after the start at which it arrives
  int64_t prompt = 0;  // tokens
  int64_t answer = 0;  // tokens, at least 1; the first comes out of the prompt's last row
};

// Returns the seconds from the start to the last answer's end, with at most `slots` (at least 1) sequences at
// once. A free slot takes the waiting request with the longest answer (longest processing time first, so that
// few rows run alone at the end) and feeds its prompt at the full rate; then all running rows decode
// together.
double ideal_seconds(std::vector<ScheduledRequest> requests, const StepTimes& times, int64_t slots);

}  // namespace fulmar
