// Walks a grammar byte by byte over every reading at once; states are made as they are met (a lazy subset
// construction) and remembered.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace fulmar {

// What one step costs has a bound, whatever the grammar: a state holds at most kMaxFrames frames, and a step
// looks at about kMaxVisits places. Beyond that, readings are left out: what is taken then still is a text of
// the grammar, and a state that another byte could follow still has one.
class Automaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;
  static constexpr size_t kMaxFrames = 1024;
  static constexpr size_t kMaxVisits = 4096;

  // The grammar is finished.
  explicit Automaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return 0; }
  // kDead when no complete text goes on with this byte.
  State step(State state, uint8_t byte) {
    const State known = step_of(state, byte).to;
    return known != kUnknown ? known : find_step(state, byte);
  }
  // What the step took to find, in places looked at; the same whoever asked first. The step is known, and
  // with it those of all bytes that lead alike, for nothing.
  uint32_t cost(State state, uint8_t byte) const { return step_of(state, byte).cost; }
  // The first of the bytes that lead alike. The step is known.
  uint8_t first_alike(State state, uint8_t byte) const { return step_of(state, byte).first_alike; }
  // Returns whether the text so far is complete.
  bool accepting(State state) const { return reading(state).accepting; }
  // Returns whether no byte may follow.
  bool final(State state) const { return reading(state).frames.empty(); }

  // The byte that every text goes on with; nothing where there are several, or the text is complete.
  std::optional<uint8_t> only_byte(State state) const;

  size_t states() const { return states_.size(); }
  // What it holds, about, the grammar included.
  size_t bytes() const;
  // Returns whether readings have been left out.
  bool narrowed() const { return narrowed_; }
  // Names what the state takes within the next kFarTicks bytes: states of one name differ only in counts that
  // are farther than that from their bounds.
  int32_t near_future(State state);
  static constexpr int64_t kFarTicks = 256;
  struct FreeText {
    int64_t characters = 0;     // any text of so many characters of a JSON string goes on from here
    bool nothing_else = false;  // and no longer one
  };
  FreeText free_text(State state) const;
  // free_text() is kFreeCharacters or more.
  bool is_free(State state);
  static constexpr int64_t kFreeCharacters = Grammar::kFreeCharacters;
  // A fresh automaton whose start is `state` of this one: forgets everything else.
  Automaton rooted_at(State state) const;

 private:
  static constexpr State kUnknown = -2;

  static constexpr int32_t kNoTicks = std::numeric_limits<int32_t>::min();

  // A place that takes a byte or is free, and the frame to which its rule returns (-1: the text is complete
  // then). The frame of a Count's body stands at the Count, with the number of ticks so far.
  struct Frame {
    Place place = 0;
    int32_t caller = -1;
    int32_t ticks = kNoTicks;
    // The frame that stands for all those from which the next kFarTicks ticks lead alike: perhaps itself.
    int32_t alike = -1;
    // Of the place and of all callers: orders frames alike in every automaton of the grammar.
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

  // Of the reading that is being found.
  std::vector<Point> open_;
  std::vector<uint32_t> met_in_;  // by frame: the last reading that met it
  uint32_t reading_number_ = 0;
  size_t visits_ = 0;
};

}  // namespace fulmar
