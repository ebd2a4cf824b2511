// Run-ahead (asynchronous scheduling): while the device draws the tokens of one step, the next step of the
// same rows begins, so that the device never waits for the host in between. Which rows allow that: pure.
#pragma once

#include "engine/sequence.h"

namespace fulmar {

// Returns whether only its drawn id or its length can end the decoding row at its next token: the device
// compares ids by itself (StepInput::drawn), and the length is known. Rows with stop texts, a grammar or
// copies of the state need the token first.
bool runs_ahead(const Sequence& sequence);

// Returns whether the row wants another token after the one that is being drawn.
bool goes_on(const Sequence& sequence);

}  // namespace fulmar
