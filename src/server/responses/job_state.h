// The states of a background response: which state follows on each event, and what has to be done then. Pure;
// BackgroundResponses acts on it.
#pragma once

#include <cstdint>

namespace fulmar {

struct JobState {
  enum class Phase : uint8_t {
    waits,     // for its turn, in this server or the next
    taken_up,  // it is prepared for the engine
    runs,      // the engine has it
    over,
  };
  enum class Wish : uint8_t { answer, cancelled, deleted };  // of its client

  Phase phase = Phase::waits;
  Wish wish = Wish::answer;
  bool interrupted = false;  // it has to end because the server does

  bool operator==(const JobState&) const = default;
};

enum class JobEvent : uint8_t {
  take_up,
  put_back,   // there is no room for it now
  hand_over,  // the engine has taken its row
  answer,     // it has ended, with an answer or with what says why there is none
  cut,        // its row was cancelled
  lose,       // it has ended, but its answer cannot be kept
  cancel,     // by its client, as the next
  remove,
  interrupt,  // the server ends
};

struct JobStep {
  JobState next;
  bool stores_answer = false;  // the one that came with the event
  bool uncounts = false;       // this attempt does not count
  bool cancels_row = false;
};

JobStep next_step(const JobState& state, JobEvent event);

}  // namespace fulmar
