// Times a loaded model's steps on any backend. Knows no flags, files or devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/roofline.h"
#include "ops/ceilings.h"
#include "ops/ops.h"
#include "text/tokenizer.h"

namespace fulmar {

// Prompts processed together, all from the zero state.
struct PrefillShape {
  int64_t sequences = 1;
  int64_t tokens = 512;
};

// A step in which some sequences decode and prompts are fed beside them (continuous batching).
struct MixedShape {
  int64_t decode = 320;
  PrefillShape prompts = {4, 64};
};

struct BenchOptions {
  std::vector<int64_t> decode = {1, 4, 16};  // sequences that advance by one token together
  std::vector<PrefillShape> prefill = {{1, 512}};
  std::vector<MixedShape> mixed;
  // The types that states are kept in between tokens: each decode and mixed line runs once per type, prefill
  // with the first. Empty: the backend's own.
  std::vector<DType> states;
  // Numbers of rows after which states are written: each decode and mixed line runs once per
  // number and type, prefill with the first. Empty: as the backend was opened for the type that it
  // keeps states in, and 1 for the other.
  std::vector<int64_t> defer;
  double zeros = 0;     // fraction of hidden channels that the model is known to have at zero after relu²
  int repeats = 5;      // timed runs of each line, after an untimed one
  double seconds = 60;  // no new run begins after this time; each line has at least one
  double delay = 0;     // seconds of rest before each line, so that heat from the one before does not slow it
};

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// One timed workload. Rates are of the median.
struct BenchLine {
  std::string workload;  // "decode", "prefill" or "mixed"
  int64_t sequences = 0;
  int64_t tokens = 0;    // per sequence and run; 1 for decode
  int64_t decoding = 0;  // of a mixed step: sequences that decode in addition to the prompts
  DType state = DType::f32;
  int64_t defer = 1;  // states are written after every this many rows
  int runs = 0;
  Spread seconds;  // of one step, or one whole prefill
  double tokens_per_second = 0;
  StepWork work;  // the least that one run has to move and compute

  double gbs() const { return (work.weight_bytes() + work.state_bytes) / seconds.median / 1e9; }
  double gflops() const { return work.flop() / seconds.median / 1e9; }
};

// One island of one layer alone (bench_islands.h).
struct IslandLine {
  std::string island;
  int64_t sequences = 0, tokens = 0;
  Spread seconds;  // of one call
  double bytes = 0, flop = 0;
};

struct BenchReport {
  std::vector<BenchLine> lines;
  std::vector<IslandLine> islands;
  Ceilings ceilings;
  std::string device;
  std::string model;
  std::string state_dtype;
  size_t weight_bytes = 0;   // read by one decode step
  size_t state_bytes = 0;    // of one sequence
  double load_seconds = 0;   // until the model was ready, which includes making a synthetic one
  double tokenizer_mbs = 0;  // text encoded per second on one core, / 1e6; 0: no vocabulary
  size_t peak_rss = 0;       // bytes of this process
  double load_average = 0;   // of the machine when the run began, last minute
};

// Runs every line of the options. Sampling is not part of a step here. Steps are timed by the clock, many in
// a row with one wait for the device at the end, so the host's share of a step counts. Fails (invalid) for
// shapes that do not fit into the rows that the model was loaded for. The caller adds the model's name, its
// loading, ceilings and tokenizer.
//
// On several devices the sequences are divided among the steps that the model has under way at once, as in
// the engine: each one's next step begins when its last is over.
Result<BenchReport> bench_model(Model& model, const BenchOptions& options);

// Returns how many megabytes of English text the tokenizer encodes per second on this thread.
double bench_tokenizer(const Tokenizer& tokenizer);

// Returns median, least and most; `values` is not empty.
Spread spread_of(std::vector<double> values);

// Parses the texts of --decode, --prefill and --mixed: "1,4,16", "1x512,8x512" and "320+4x64". Empty: none.
Result<std::vector<int64_t>> parse_counts(std::string_view text);
Result<std::vector<PrefillShape>> parse_prefills(std::string_view text);
Result<std::vector<MixedShape>> parse_mixed(std::string_view text);

}  // namespace fulmar
