// Updates a sequence by a drawn token: pure, no device, no clock.
#pragma once

#include <cstdint>
#include <string>

#include "engine/sequence.h"
#include "ops/sampling.h"
#include "text/tokenizer.h"

namespace fulmar {

// Appends the drawn token, or ends the row because of it: stop id, complete grammar or max_tokens, in this
// order. Afterwards `sequence.finish` is set, or the token is in ready(), to be fed.
void take_token(Sequence& sequence, const SampledToken& drawn);

// Returns whether the output's text can end the row, too.
bool text_decides(const Sequence& sequence);

// Returns the text to show because of the token; call after take_token. A stop text ends the row, and takes
// precedence over other reasons; a row that has ended shows all text that was held back.
std::string tell_token(Sequence& sequence, const SampledToken& drawn, const Tokenizer& tokenizer);

// Returns how many drawn tokens an ended row's session contains: those before the first token of a matched
// stop text, else all.
size_t tokens_to_commit(const Sequence& sequence);

// Returns the event that ends a row, with the text that was still held back unless the row is paused.
Event finished_event(Sequence& sequence, const Tokenizer& tokenizer);

}  // namespace fulmar
