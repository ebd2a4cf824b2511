// Whether a grammar takes a text.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "grammar/automaton.h"

namespace fulmar::testing {

// Returns whether the automaton takes the whole text and may end there.
inline bool takes(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  for (const char byte : text) {
    state = automaton.step(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) return false;
  }
  return automaton.accepting(state);
}

inline bool takes(std::shared_ptr<const Grammar> grammar, std::string_view text) {
  Automaton automaton(std::move(grammar));
  return takes(automaton, text);
}

}  // namespace fulmar::testing
