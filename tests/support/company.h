// One sequence's steps, alone and beside others: what a batch-invariant device must not tell apart. The
// sequence's own steps are always the same: prompts that go in chunks and that do not, single tokens, rows
// that are rolled back, and a state that is saved and restored.
#pragma once

#include <cstdint>

#include "support/slot_script.h"

namespace fulmar::support {

struct Company {
  int64_t rows = 1;    // of each step, those of the sequence counted in; its own at least
  bool mixed = false;  // others feed prompts and drafts, too; otherwise a token each
};

// Slots that a rig needs for companies of so many rows.
constexpr int64_t company_slots(int64_t most_rows) { return most_rows + 1; }

// What the sequence sees: its logits and its state. `drafts`: the device can roll rows back.
SlotTrace play_in_company(ModelRig& rig, const Company& company, bool drafts, int32_t vocab = 96);

}  // namespace fulmar::support
