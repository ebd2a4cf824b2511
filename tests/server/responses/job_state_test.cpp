// What is promised of a response in the background, in every order of what may happen to it.
#include "server/responses/job_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fulmar {
namespace {

using Phase = JobState::Phase;
using Wish = JobState::Wish;

constexpr JobEvent kEvents[] = {JobEvent::take_up, JobEvent::put_back, JobEvent::hand_over,
                                JobEvent::answer,  JobEvent::cut,      JobEvent::lose,
                                JobEvent::cancel,  JobEvent::remove,   JobEvent::interrupt};
constexpr const char* kNames[] = {"take_up", "put_back", "hand_over", "answer",   "cut",
                                  "lose",    "cancel",   "remove",    "interrupt"};

bool is_begun(const JobState& state) { return state.phase == Phase::taken_up || state.phase == Phase::runs; }

// One job, what was told of it, and what must hold after each further event.
struct Story {
  JobState state;
  std::string events;
  int counted = 0;  // times it was taken up, less those that were none
  int stored = 0;
  bool told_to_end = false;  // its row, since the engine has it
  bool unwanted = false, deleted = false, ending = false;

  void happen(size_t index) {
    const JobEvent event = kEvents[index];
    const JobState before = state;
    const JobStep step = next_step(before, event);
    state = step.next;
    events += std::string(" ") + kNames[index];
    note(event, before, step);
    check(event, before, step);
  }

  void note(JobEvent event, const JobState& before, const JobStep& step) {
    if (before.phase == Phase::waits && state.phase == Phase::taken_up) {
      ++counted;
      told_to_end = unwanted = ending = false;
    }
    counted -= step.uncounts ? 1 : 0;
    stored += step.stores_answer ? 1 : 0;
    told_to_end = told_to_end || step.cancels_row;
    if (before.phase == Phase::over) return;
    unwanted = unwanted || event == JobEvent::cancel || event == JobEvent::remove;
    deleted = deleted || event == JobEvent::remove;
    ending = ending || (event == JobEvent::interrupt && is_begun(before));
  }

  void check(JobEvent event, const JobState& before, const JobStep& step) const {
    SCOPED_TRACE(events);
    if (before.phase == Phase::over) {
      EXPECT_EQ(state, before) << "what is over stays so";
      EXPECT_FALSE(step.stores_answer || step.uncounts || step.cancels_row);
    }
    EXPECT_LE(stored, 1) << "one answer";
    if (deleted) {
      EXPECT_FALSE(step.stores_answer) << "a deleted one does not come back";
    }
    EXPECT_GE(counted, 0);
    if (step.uncounts) {
      EXPECT_TRUE(is_begun(before) && state.phase == Phase::waits);
    }
    if (state.phase == Phase::waits) {
      EXPECT_EQ(state, JobState()) << "and may be taken up";
    }
    if (unwanted && is_begun(before)) {
      EXPECT_NE(state.phase, Phase::waits) << "what nobody wants is not made";
    }
    if (state.phase == Phase::runs && (unwanted || ending)) {
      EXPECT_TRUE(told_to_end);
    }
    if (step.cancels_row) {
      EXPECT_EQ(state.phase, Phase::runs) << "the engine has it";
    }
    const bool ends = event == JobEvent::answer || event == JobEvent::cut || event == JobEvent::lose;
    if (ends) {
      EXPECT_FALSE(is_begun(state)) << "none hangs";
    }
    if (event == JobEvent::put_back) {
      EXPECT_NE(state.phase, Phase::taken_up);
    }
    if (is_begun(before) && event == JobEvent::answer) {
      EXPECT_EQ(step.stores_answer, !deleted);
    }
    if (is_begun(before) && event == JobEvent::cut && ending && !unwanted) {
      EXPECT_TRUE(state.phase == Phase::waits && step.uncounts) << "the next server makes it";
    }
    if (event == JobEvent::lose && is_begun(before) && !unwanted) {
      EXPECT_TRUE(state.phase == Phase::waits && !step.uncounts) << "it is tried again so often";
    }
  }
};

void tell_all(const Story& story, int more) {
  for (size_t event = 0; event < std::size(kEvents) && !::testing::Test::HasFailure(); ++event) {
    Story next = story;
    next.happen(event);
    if (more > 1) tell_all(next, more - 1);
  }
}

TEST(JobState, KeepsItsPromisesInEveryOrderOfEvents) { tell_all({}, 6); }

// Attempts are what is left of those counted: none by events that are no attempts, whatever their order.
TEST(JobState, WaitingAndOrderlyEndsAreNoAttempts) {
  const std::vector<std::vector<JobEvent>> kRounds = {
      {JobEvent::take_up, JobEvent::put_back},
      {JobEvent::take_up, JobEvent::interrupt, JobEvent::put_back},
      {JobEvent::take_up, JobEvent::interrupt, JobEvent::hand_over, JobEvent::cut},
      {JobEvent::take_up, JobEvent::hand_over, JobEvent::interrupt, JobEvent::cut},
      {JobEvent::interrupt, JobEvent::take_up, JobEvent::hand_over, JobEvent::interrupt, JobEvent::cut}};
  for (const auto& round : kRounds) {
    JobState state;
    int counted = 0;
    for (const JobEvent event : round) {
      const JobStep step = next_step(state, event);
      counted += event == JobEvent::take_up ? 1 : 0;
      counted -= step.uncounts ? 1 : 0;
      state = step.next;
    }
    EXPECT_EQ(counted, 0);
    EXPECT_EQ(state, JobState());
  }
}

}  // namespace
}  // namespace fulmar
