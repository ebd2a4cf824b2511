// Reads training data: lines of JSON to sequences of tokens with the targets that count. Knows no model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/prompt_template.h"
#include "text/tokenizer.h"
#include "tune/trained_model.h"

namespace fulmar {

// A sequence: each token's target is the next token, or -1 where it does not count.
struct TuneSample {
  std::vector<int32_t> tokens, targets;  // equally long, at least one
};

struct SampleOptions {
  const Tokenizer& tokenizer;
  const PromptTemplate& prompt_template;
  int64_t vocab = 0;         // rows of the model's embedding
  int64_t context = 512;     // most tokens of a sequence, at least 1
  bool answers_only = true;  // false: every target counts
};

struct Samples {
  std::vector<TuneSample> samples;
  int64_t cut = 0;      // those that were longer than the context
  int64_t skipped = 0;  // lines that gave none: fewer than two tokens, or no target left within the context
};

// Reads a line for each sample, blank ones aside. A line is an object with one of these groups of members and
// no others:
//   text                             every target counts
//   prompt and completion (or answer)   joined as they are; the completion counts
//   messages, of role and content    rendered by the template; what the assistant says counts
// What a prompt ends with and an answer begins with are tokenised apart, as they are when the model is asked.
// The vocabulary's end token follows each sample and counts. Errors (invalid) begin "line N: "; a file
// without any sample to train with is one, too.
Result<Samples> read_samples(std::string_view lines, const SampleOptions& options);

// Returns the samples' indices of step `step`, counted from 0: epochs one after another, each in an order
// that depends on the seed and the epoch alone; the last step of an epoch may have fewer. `count` and `batch`
// are positive.
std::vector<int64_t> samples_of_step(int64_t step, int64_t count, int64_t batch, uint64_t seed);
// Returns the steps of an epoch.
int64_t steps_of_epoch(int64_t count, int64_t batch);

// Returns these samples as packed sequences.
TuneBatch batch_of(const Samples& samples, const std::vector<int64_t>& indices);

}  // namespace fulmar
