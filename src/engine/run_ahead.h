// Run-ahead (asynchronous scheduling): while the device draws the tokens of one step, the next one of the
// same rows is begun, so that it waits for nothing that the host does between them. Which rows allow that:
// pure.
#pragma once

#include "engine/sequence.h"

namespace fulmar {

// Whether nothing but its drawn id and its length can end the decoding row at its next token: a device knows
// the ids and stops by itself (StepInput::drawn), the length is known beforehand. Who asks for text, grammar
// or copies of the state decides first what is fed.
bool runs_ahead(const Sequence& sequence);

// Whether the row wants another token behind the one that is being drawn.
bool goes_on(const Sequence& sequence);

}  // namespace fulmar
