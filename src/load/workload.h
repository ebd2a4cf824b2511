// The requests of a load test and their times. Pure functions: equal seeds give equal loads on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fulmar {

// Returns the seconds from the start at which requests arrive: gaps are exponential with mean 1/rate. An
// infinite rate sends all at once.
std::vector<double> arrival_times(size_t count, double rate, uint64_t seed);

// Tokens of one request's prompt and of its answer.
struct RequestLength {
  int64_t prompt = 0;
  int64_t answer = 0;
};

// Returns whether the acceptance load keeps these lengths (docs/http.md, "Load test").
bool is_kept(const RequestLength& length);

// Returns log-normal lengths for which is_kept holds: prompts with a median of 64 tokens, answers with one of
// 128, both with a long tail, as in logs of chats.
std::vector<RequestLength> chat_lengths(size_t count, uint64_t seed);

// Returns text of words, about `bytes` long; a long common beginning with another text is unlikely.
std::string filler_text(size_t bytes, uint64_t seed);

// Parses the first and second turn of each conversation of a ShareGPT file, an array of
// {"conversations":[{"value":...},...]}; skips conversations with fewer turns.
Result<std::vector<std::pair<std::string, std::string>>> parse_conversations(const std::string& json);

// Returns 0 .. count-1 in a random order.
std::vector<size_t> shuffled(size_t count, uint64_t seed);

}  // namespace fulmar
