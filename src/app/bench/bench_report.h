// Formats a benchmark's result for people and for programs.
#pragma once

#include <string>

#include "app/bench/bench_model.h"

namespace fulmar {

// Returns a table of one line per workload, with fractions of the ceilings, and the facts of the run.
std::string bench_table(const BenchReport& report);

// Returns the same as one JSON object; times in seconds, rates as in BenchLine.
std::string bench_json(const BenchReport& report);

}  // namespace fulmar
