// Measures the gain of speculative decoding on a device at a given acceptance rate, with weights that mean
// nothing: each drafted token is accepted with the same probability if all before it were.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/bench/bench_model.h"

namespace fulmar {

struct DraftBenchOptions {
  std::vector<int64_t> sequences = {1};  // that decode together
  int64_t most = 7;                      // drafted tokens of a sequence and step
  double acceptance = 0.7;               // the probability that a drafted token is right
  int repeats = 5;
  double seconds = 60;  // of each line: no new run begins after this time
};

struct DraftLine {
  int64_t sequences = 0;
  int64_t drafts = 0;              // of a sequence and step: the quickest number here
  Spread plain, drafted;           // tokens per second, in alternating runs
  std::vector<double> step_costs;  // seconds of a step with 0, 1, ... drafts
  double draft_cost = 0;           // seconds of a step of the draft model; 0: drafts come from n-grams
};

// A loaded model and its device.
struct BenchedModel {
  Ops& ops;
  Model& model;
};

// Runs every line: steps with draws and roll-backs, no engine. `draft_model`: null if drafts cost nothing, as
// with n-grams; otherwise each draft is a step of that model, which also reads accepted tokens. Fails
// (invalid) for more rows than the models were loaded for.
Result<std::vector<DraftLine>> bench_drafts(const BenchedModel& target, const BenchedModel* draft_model,
                                            const DraftBenchOptions& options);

std::string drafts_table(const std::vector<DraftLine>& lines, const DraftBenchOptions& options);
std::string drafts_json(const std::vector<DraftLine>& lines, const DraftBenchOptions& options);

}  // namespace fulmar
