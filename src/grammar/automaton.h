// Walks a grammar byte by byte, following every reading at once. States are built when they are first reached
// (a lazy subset construction) and remembered.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace fulmar {

// The cost of a step is bounded, whatever the grammar: a state holds at most kMaxFrames frames, and a step
// looks at about kMaxVisits places. Beyond that, readings are left out: what is then still accepted is a text
// of the grammar, and a state that had a next byte still has one.
class Automaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;
  static constexpr size_t kMaxFrames = 1024;
  static constexpr size_t kMaxVisits = 4096;

  // Starts at the root of a grammar, which is finished.
  explicit Automaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return 0; }
  // Returns the state after this byte; kDead when it begins no complete text.
  State step(State state, uint8_t byte) {
    const State known = step_of(state, byte).to;
    return known != kUnknown ? known : find_step(state, byte);
  }
  // Returns the cost of finding a known step, in places looked at; it does not depend on who asked first.
  // Once a step is known, so are those of all bytes that lead to the same state, at no further cost.
  uint32_t cost(State state, uint8_t byte) const { return step_of(state, byte).cost; }
  // Returns the first byte that leads to the same state as `byte`, whose step is known.
  uint8_t first_alike(State state, uint8_t byte) const { return step_of(state, byte).first_alike; }
  // Returns whether the text so far is complete.
  bool accepting(State state) const { return reading(state).accepting; }
  // Returns whether no byte may follow.
  bool final(State state) const { return reading(state).frames.empty(); }

  // Returns the only byte that may follow; nothing where several may, or the text is complete.
  std::optional<uint8_t> only_byte(State state) const;

  size_t states() const { return states_.size(); }
  // Returns the approximate bytes of memory held, the grammar's included.
  size_t bytes() const;
  // Returns whether readings have been left out.
  bool narrowed() const { return narrowed_; }
  // Returns an id of what the state accepts within the next kFarTicks bytes: states with the same id differ
  // only in counts that are farther than that from their bounds.
  int32_t near_future(State state);
  static constexpr int64_t kFarTicks = 256;
  struct FreeText {
    int64_t characters = 0;     // any text of this many characters of a JSON string may follow
    bool nothing_else = false;  // and no longer text may
  };
  FreeText free_text(State state) const;
  // Returns whether free_text() is at least kFreeCharacters.
  bool is_free(State state);
  static constexpr int64_t kFreeCharacters = Grammar::kFreeCharacters;
  // Returns a new automaton that starts at `state` of this one and has forgotten everything else.
  Automaton rooted_at(State state) const;

 private:
  static constexpr State kUnknown = -2;

  static constexpr int32_t kNoTicks = std::numeric_limits<int32_t>::min();

  // A place that takes a byte or is free, and the frame to which its rule returns (-1: the text is then
  // complete). The frame of a Count's body has the Count as its place, with the number of ticks so far.
  struct Frame {
    Place place = 0;
    int32_t caller = -1;
    int32_t ticks = kNoTicks;
    // The frame that stands for all that agree with this one on the next kFarTicks ticks; may be itself.
    int32_t alike = -1;
    // A hash of the place and of all callers: orders frames the same way in every automaton of the grammar.
    uint64_t print = 0;
  };
  struct Step {
    State to = kUnknown;
    uint16_t cost = 0;
    uint8_t first_alike = 0;
  };
  struct Reading {
    std::vector<int32_t> frames;  // ids by print
    bool accepting = false;
    bool operator==(const Reading&) const = default;
  };
  struct ReadingHash {
    size_t operator()(const Reading& reading) const;
  };
  struct Known {
    const Reading* reading;         // a key of state_ids_, which stays where it is
    int32_t near_future = -1;       // not yet asked for
    std::optional<bool> free;       // not yet asked for
    std::unique_ptr<Step[]> steps;  // by class of the byte
  };
  struct Point {
    Place place;
    int32_t caller;
  };
  struct Empty {};
  Automaton(std::shared_ptr<const Grammar> grammar, Empty) : grammar_(std::move(grammar)) {}

  const Step& step_of(State state, uint8_t byte) const {
    return states_[static_cast<size_t>(state)].steps[grammar_->byte_class(byte)];
  }
  const Reading& reading(State state) const { return *states_[static_cast<size_t>(state)].reading; }
  State find_step(State state, uint8_t byte);
  void reach(Place place, int32_t caller, Reading& next);
  void begin_reading();
  void reach_tick(const Grammar::Node& node, int32_t caller);
  bool has_enough(int32_t caller) const;
  bool is_free(const Frame& frame) const;
  int32_t frame_of(Place place, int32_t caller, int32_t ticks = kNoTicks);
  int32_t far_ticks(const Frame& frame) const;
  void grow_frame_table();
  int32_t copy_frame(const Automaton& from, int32_t frame);
  void sort_frames(Reading& reading) const;
  State state_of(Reading reading);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::vector<int32_t> frame_table_;  // ids of frames by hash, open addressing; -1: free
  std::unordered_map<Reading, State, ReadingHash> state_ids_;
  std::unordered_map<Reading, int32_t, ReadingHash> futures_;
  std::vector<Known> states_;
  size_t frames_read_ = 0;  // by all states together
  bool narrowed_ = false;

  // State of the reading that is being built.
  std::vector<Point> open_;
  std::vector<uint32_t> met_in_;  // by frame: the last reading that met it
  uint32_t reading_number_ = 0;
  size_t visits_ = 0;
};

}  // namespace fulmar
