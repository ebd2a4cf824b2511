// The next token of a row with a mask, and whether the model has to be asked for it (fast-forward). Pure,
// except for what masks remember.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/sequence.h"
#include "ops/sampling.h"

namespace fulmar {

// Most forced tokens of a row that a step feeds after the drawn one: devices compute up to 16 rows of a
// sequence one after the other, to the same bits as in separate steps.
constexpr int64_t kMostForwarded = 15;

// Returns the token that the mask forces as generated token number `position`; nothing where the request's
// own bans, biases or stops apply to that token.
std::optional<int32_t> forced_token(const Ask& ask, TokenMask& mask, uint64_t position);

// Returns the forced token that the row takes without asking the model; nothing where its log-probability is
// wanted.
std::optional<int32_t> forwarded_token(const Sequence& sequence);

// Applies the mask to a row that has its position and parameters: gives it the forced token or, also with
// log-probabilities, the allowed ids.
void mask_row(SampleRow& row, const Ask& ask, TokenMask& mask);
// Returns whether mask_row has nothing to compute.
bool is_at_hand(const SampleRow& row, const Ask& ask, TokenMask& mask);

}  // namespace fulmar
