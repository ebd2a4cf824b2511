// What an Ask must keep to before it is let in: pure, so that whoever submits pays for the looking.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "engine/ask.h"

namespace fulmar {

// Of all stop texts of a row together: their automaton is looked at for every drawn token.
constexpr size_t kMostStopBytes = size_t{64} << 10;
constexpr size_t kMostStopIds = 4096;
constexpr size_t kMostSessionBytes = 512;  // of a session's id

struct AskLimits {
  int64_t vocabulary = 0;         // ids are below it
  int64_t slots = 0;              // of the engine: what a mixture may take
  int64_t max_prompt_tokens = 0;  // 0: any number
};

// The first rule that is broken, as an `invalid` Error with both values.
Status check_ask(const Ask& ask, const AskLimits& limits);
// The part of it for a row's most tokens.
Status check_max_tokens(int64_t max_tokens);

}  // namespace fulmar
