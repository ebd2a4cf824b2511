// What a drawn token does to its sequence: pure, no device, no clock.
#pragma once

#include <cstdint>
#include <string>

#include "engine/sequence.h"
#include "ops/sampling.h"
#include "text/tokenizer.h"

namespace fulmar {

// Appends the drawn token, or ends the row because of it: stop id, complete grammar or max_tokens, in this
// order. Afterwards `sequence.finish` is set, or the token waits in ready() to be fed.
void take_token(Sequence& sequence, const SampledToken& drawn);

// Whether the text of its tokens can end the row, too.
bool text_decides(const Sequence& sequence);

// The text to show now because of the token, after take_token. A stop text in it ends the row, and goes
// before what else has ended it; a row that has ended says all that it held back.
std::string tell_token(Sequence& sequence, const SampledToken& drawn, const Tokenizer& tokenizer);

// How many drawn tokens belong into the state of a session once the row has ended: those before the first
// token of a matched stop text, else all of them.
size_t tokens_to_commit(const Sequence& sequence);

// The event that ends a row; takes what the output still holds back.
Event finished_event(Sequence& sequence, const Tokenizer& tokenizer);

}  // namespace fulmar
