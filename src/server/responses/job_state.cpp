#include "server/responses/job_state.h"

#include <algorithm>

namespace fulmar {

JobStep next_step(const JobState& state, JobEvent event) {
  using Phase = JobState::Phase;
  using Wish = JobState::Wish;
  JobStep step{.next = state};
  JobState& next = step.next;
  const bool begun = state.phase == Phase::taken_up || state.phase == Phase::runs;
  const bool wanted = state.wish == Wish::answer;
  const auto wait_again = [&](bool uncounts) {
    next = JobState();
    step.uncounts = uncounts;
  };
  const auto end = [&] {
    next.phase = Phase::over;
    step.stores_answer = state.wish != Wish::deleted;
  };
  const auto wish = [&](Wish wished) {
    if (state.phase == Phase::waits) next.phase = Phase::over;
    if (begun) next.wish = std::max(state.wish, wished);
    step.cancels_row = state.phase == Phase::runs && wanted;
  };
  switch (event) {
    case JobEvent::take_up:
      if (state.phase == Phase::waits) next.phase = Phase::taken_up;
      break;
    case JobEvent::put_back:
      if (state.phase == Phase::taken_up) wanted ? wait_again(true) : end();
      break;
    case JobEvent::hand_over:
      if (state.phase != Phase::taken_up) break;
      next.phase = Phase::runs;
      step.cancels_row = !wanted || state.interrupted;
      break;
    case JobEvent::answer:
      if (begun) end();
      break;
    case JobEvent::cut:
      if (begun) (wanted && state.interrupted) ? wait_again(true) : end();
      break;
    case JobEvent::lose:
      if (begun) wanted ? wait_again(false) : end();
      break;
    case JobEvent::cancel:
      wish(Wish::cancelled);
      break;
    case JobEvent::remove:
      wish(Wish::deleted);
      break;
    case JobEvent::interrupt:
      next.interrupted = state.interrupted || begun;
      step.cancels_row = state.phase == Phase::runs;
      break;
  }
  return step;
}

}  // namespace fulmar
