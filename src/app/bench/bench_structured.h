// Measures the gain of fast-forward on answers that a grammar largely determines: calls of a tool with many
// fixed names, with and without it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/bench/bench_model.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace fulmar {

struct StructuredBenchOptions {
  std::vector<int64_t> sequences = {1};  // that answer at once
  int repeats = 5;
  double seconds = 60;  // of each line: no new run begins after this time
};

struct StructuredLine {
  int64_t sequences = 0;
  std::string_view whitespace;        // as a request has it
  int64_t tokens = 0, forwarded = 0;  // of the runs with fast-forward together
  double steps_drawn = 0, steps = 0;  // of a run, without it and with it
  Spread drawn_rate, rate;            // tokens per second, in alternating runs
};

// Runs every line through an engine, with compact JSON and with the model's own spacing. Fails if no engine
// or constraint can be made.
Result<std::vector<StructuredLine>> bench_structured(Model& model, const Tokenizer& tokenizer,
                                                     const StructuredBenchOptions& options);

std::string structured_table(const std::vector<StructuredLine>& lines);
std::string structured_json(const std::vector<StructuredLine>& lines);

}  // namespace fulmar
