// Random but repeatable use of a model's slots, as an engine makes it: prefill in chunks beside decode steps,
// copies, saving and restoring, zeroing, and rows that are rolled back. What it sees must not depend on when
// states are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/model_rig.h"

namespace fulmar::support {

struct SlotScript {
  uint32_t seed = 1;
  int steps = 60;
  int64_t slots = 5;
  int32_t vocab = 96;
  int64_t longest = 20;      // rows of one prompt chunk
  int64_t most_drafted = 0;  // rows of one step that may be rolled back but the first; 0: none are
  int restores_every =
      10;  // of that many steps, on average, one has a state saved and restored behind it; 0: none
};

struct SlotTrace {
  std::vector<std::vector<float>> logits;      // of every step, in order
  std::vector<std::vector<std::byte>> states;  // as saved on the way, then every slot's at the end
};

SlotTrace play(ModelRig& rig, const SlotScript& script);
// On a made-up model of its own.
SlotTrace play(const SyntheticSpec& spec, Ops& ops, const SlotScript& script);

// Bit by bit.
void expect_same_trace(const SlotTrace& got, const SlotTrace& want, const std::string& what);

}  // namespace fulmar::support
