// What a drawn token does to its sequence: pure, no device, no clock.
#pragma once

#include <cstdint>
#include <string>

#include "engine/sequence.h"
#include "ops/sampling.h"
#include "text/tokenizer.h"

namespace fulmar {

// Appends the drawn token, or ends the row because of it: stop id, stop text, complete grammar or max_tokens,
// in this order. Afterwards `sequence.finish` is set, or the token waits in ready() to be fed. Returns the
// text to show now.
std::string settle_token(Sequence& sequence, const SampledToken& drawn, const Tokenizer& tokenizer);

// How many drawn tokens belong into the state of a session once the row has ended: those before the first
// token of a matched stop text, else all of them.
size_t tokens_to_commit(const Sequence& sequence);

// The event that ends a row; takes what the output still holds back.
Event finished_event(Sequence& sequence);

}  // namespace fulmar
