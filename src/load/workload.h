// What a load test sends and when. Pure functions: equal seeds give equal loads on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fulmar {

// Seconds from the start at which requests arrive: gaps are exponential with mean 1/rate. An infinite rate
// sends all at once.
std::vector<double> arrival_times(size_t count, double rate, uint64_t seed);

// Tokens of one request's prompt and of its answer.
struct RequestLength {
  int64_t prompt = 0;
  int64_t answer = 0;
};

// True for lengths that the acceptance load keeps (docs/http.md, "Load test").
bool is_kept(const RequestLength& length);

// Log-normal lengths, cut to what is_kept: prompts with a median of 64 tokens and answers with one of 128,
// both with a long tail, as in logs of chats.
std::vector<RequestLength> chat_lengths(size_t count, uint64_t seed);

// Text of words, about `bytes` long, that shares no long beginning with others but by chance.
std::string filler_text(size_t bytes, uint64_t seed);

// First and second turn of each conversation of a ShareGPT file, an array of
// {"conversations":[{"value":...},...]}; those with fewer turns are skipped.
Result<std::vector<std::pair<std::string, std::string>>> parse_conversations(const std::string& json);

// A new order of 0 .. count-1.
std::vector<size_t> shuffled(size_t count, uint64_t seed);

}  // namespace fulmar
