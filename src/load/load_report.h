// Turns the records of a load into figures and their table. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/completion_reader.h"
#include "load/statistics.h"

namespace fulmar {

// Figures over the answers that succeeded; times in milliseconds.
struct LoadFigures {
  size_t requests = 0;
  size_t successes = 0;
  size_t exact = 0;                 // successes that ended because they had their full length
  std::vector<std::string> faults;  // of the first few that failed
  double seconds = 0;               // from the first request to the last answer's end
  int64_t answer_tokens = 0;        // asked for by the successes
  Summary e2e, ttft, itl, tpot;
  size_t most_in_flight = 0;
  double drain_seconds = 0;  // from the last arrival to the last answer's end
};

// Computes the figures. `lengths`: tokens asked for, one per record. ITL pools the gaps of all answers; TPOT
// is (E2E - TTFT) / (L - 1).
LoadFigures load_figures(std::span<const AnswerRecord> records, std::span<const int64_t> lengths);

std::string load_table(const LoadFigures& figures);
std::string load_json(const LoadFigures& figures);

// The rate at which tokens arrived while every stream was running: from the last stream's first text to the
// first stream's last text. Zero if there was no such time. With `lengths` as above an event counts for its
// share of the answer, since a character of several tokens arrives in one event.
struct SteadyRate {
  double seconds = 0;
  double tokens_per_second = 0;
};
SteadyRate steady_rate(std::span<const AnswerRecord> records, std::span<const int64_t> lengths);

}  // namespace fulmar
