// A benchmark's result for people and for programs.
#pragma once

#include <string>

#include "app/bench/bench_model.h"

namespace fulmar {

// A table of one line per workload, with shares of the ceilings, and the facts around it.
std::string bench_table(const BenchReport& report);

// The same as one JSON object; times in seconds, rates as in BenchLine.
std::string bench_json(const BenchReport& report);

}  // namespace fulmar
