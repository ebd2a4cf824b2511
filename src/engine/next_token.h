// What a row with a mask may take as its next token, and whether the model is asked for it (fast-forward):
// pure, but for what masks remember.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/sequence.h"
#include "ops/sampling.h"

namespace fulmar {

// A step feeds at most so many forced tokens of a row behind the one that it has drawn: devices compute up to
// 16 rows of one sequence one after the other, to the bits of as many steps.
constexpr int64_t kMostForwarded = 15;

// The token that the mask forces as the generated token number `position`. None where the request has a word
// of its own on that token: bans, biases, stops.
std::optional<int32_t> forced_token(const Ask& ask, TokenMask& mask, uint64_t position);

// The forced token that the row goes on with without asking the model. None where somebody wants to know what
// the model thinks of it.
std::optional<int32_t> forwarded_token(const Sequence& sequence);

// Puts into the row, which has its position and parameters, what the mask says: the forced token, or those
// that are allowed. Log-probabilities are among the latter.
void mask_row(SampleRow& row, const Ask& ask, TokenMask& mask);
// Whether mask_row has nothing to work out.
bool is_at_hand(const SampleRow& row, const Ask& ask, TokenMask& mask);

}  // namespace fulmar
