// The rules that an Ask must keep before it is admitted. Pure, and checked on the submitter's thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "engine/ask.h"

namespace fulmar {

// The most bytes of all stop texts of a row, whose automaton advances with every drawn token.
constexpr size_t kMostStopBytes = size_t{64} << 10;
constexpr size_t kMostStopIds = 4096;
constexpr size_t kMostSessionBytes = 512;  // of a session's id

struct AskLimits {
  int64_t vocabulary = 0;         // ids are smaller
  int64_t slots = 0;              // of the engine, which bounds a mixture
  int64_t max_prompt_tokens = 0;  // 0: no limit
};

// Returns an `invalid` Error, with both values, for the first rule that is broken.
Status check_ask(const Ask& ask, const AskLimits& limits);
// Checks a row's max_tokens alone.
Status check_max_tokens(int64_t max_tokens);

}  // namespace fulmar
