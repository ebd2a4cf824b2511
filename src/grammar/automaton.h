// Walks a grammar byte by byte over every reading at once; states are made as they are met and remembered.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace fulmar {

class Automaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  // The grammar is finished.
  explicit Automaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return 0; }
  // kDead when no complete text goes on with this byte.
  State step(State state, uint8_t byte) {
    const State known = steps_[static_cast<size_t>(state)][byte];
    return known != kUnknown ? known : find_step(state, byte);
  }
  // The text so far is complete.
  bool accepting(State state) const { return states_[static_cast<size_t>(state)]->accepting; }
  // No byte may follow.
  bool final(State state) const { return states_[static_cast<size_t>(state)]->frames.empty(); }

  size_t states() const { return states_.size(); }
  // A fresh automaton whose start is `state` of this one: forgets everything else.
  Automaton rooted_at(State state) const;

 private:
  static constexpr State kUnknown = -2;

  // A place that takes a byte, and the frame to which its rule returns (-1: the text is complete then).
  struct Frame {
    Place place = 0;
    int32_t caller = -1;
  };
  struct Reading {
    std::vector<int32_t> frames;  // sorted ids
    bool accepting = false;
    auto operator<=>(const Reading&) const = default;
  };
  struct Empty {};
  Automaton(std::shared_ptr<const Grammar> grammar, Empty) : grammar_(std::move(grammar)) {}

  State find_step(State state, uint8_t byte);
  void reach(Place place, int32_t caller, Reading& reading);
  int32_t frame_of(Place place, int32_t caller);
  int32_t copy_frame(const Automaton& from, int32_t frame);
  State state_of(Reading reading);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_ids_;
  std::map<Reading, State> state_ids_;
  std::vector<const Reading*> states_;  // the keys of state_ids_, which stay where they are
  std::vector<std::array<State, 256>> steps_;
};

}  // namespace fulmar
