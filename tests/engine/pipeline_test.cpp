// An engine on a model over several devices, with several steps under way: what is said and kept is what one
// device says and keeps.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "ops/device.h"
#include "support/mixed_load.h"
#include "support/random_asks.h"
#include "support/tiny_engine.h"
#include "support/watched_ops.h"

namespace fulmar {
namespace {

using support::WatchedOps;
using testing::expect_same_answers;
using testing::mixed_load;
using testing::MixedAnswers;
using testing::RandomAsks;
using testing::TinyEngine;

std::unique_ptr<TinyEngine> engine_on(size_t devices, int64_t steps,
                                      EngineOptions options = {.slots = 4, .prefill_chunk = 16},
                                      std::function<void()> before_last = {}) {
  std::vector<std::unique_ptr<Ops>> stages;
  for (size_t i = 0; i < devices; i++) {
    stages.push_back(std::make_unique<WatchedOps>(i + 1 == devices ? before_last : std::function<void()>()));
  }
  return std::make_unique<TinyEngine>(options, std::move(stages), steps);
}

MixedAnswers answers_of(size_t devices, int64_t steps) {
  const auto tiny = engine_on(devices, steps, {.slots = 5, .prefill_chunk = 16});
  return mixed_load(*tiny);
}

struct Form {
  const char* name;
  size_t devices;
  int64_t steps;  // under way
};

class PipelineEngine : public ::testing::TestWithParam<Form> {};

TEST_P(PipelineEngine, TextsEndsScoresAndStatesAreThoseOfOneDevice) {
  // Prompts come in other pieces where more steps are under way: sums in another order.
  constexpr float kTolerance = 1e-4f;
  expect_same_answers(answers_of(GetParam().devices, GetParam().steps), answers_of(1, 1), kTolerance);
}

// A conversation of three turns that moves after each, as one blob or the other form's.
TEST_P(PipelineEngine, ASessionMovesBetweenFormsInMidConversation) {
  const auto one = engine_on(1, 1), several = engine_on(GetParam().devices, GetParam().steps);
  const auto turn = [](TinyEngine& tiny, const std::string& text) {
    Ask ask = TinyEngine::greedy(text, 6);
    ask.state = {.read_session = "s", .write_session = "s"};
    return tiny.run(std::move(ask)).text;
  };
  const auto move = [](TinyEngine& from, TinyEngine& to) {
    const auto blob = from.engine().export_session({}, "s");
    ASSERT_TRUE(blob.ok());
    const Status taken = to.engine().import_session({}, "s", *blob);
    ASSERT_TRUE(taken.ok()) << taken.error().text;
  };
  std::vector<std::string> stayed, moved;
  const auto home = engine_on(1, 1);
  for (const char* text : {"one", "two", "three", "four"}) stayed.push_back(turn(*home, text));
  moved.push_back(turn(*one, "one"));
  move(*one, *several);
  moved.push_back(turn(*several, "two"));
  moved.push_back(turn(*several, "three"));
  move(*several, *one);
  moved.push_back(turn(*one, "four"));
  EXPECT_EQ(moved, stayed);
}

TEST_P(PipelineEngine, ACancelledRowEndsAndItsSlotIsFree) {
  const auto tiny = engine_on(GetParam().devices, GetParam().steps, {.slots = 3, .prefill_chunk = 16});
  std::string id;
  const auto running = tiny->submit({TinyEngine::greedy("a", 1'000'000), TinyEngine::greedy("b", 1'000'000),
                                     TinyEngine::greedy("c", 1'000'000)},
                                    &id);
  ASSERT_TRUE(running->wait_until([](const auto& rows) {
    return rows.size() == 3 && rows.at(0).sampled > 3 && rows.at(1).sampled > 3 && rows.at(2).sampled > 3;
  }));
  EXPECT_TRUE(tiny->engine().cancel({}, id));
  for (const auto& [index, row] : running->finished(3)) EXPECT_EQ(row.last->reason, FinishReason::cancelled);
  EXPECT_EQ(tiny->run(TinyEngine::greedy("next", 5)).last->usage.completion_tokens, 5);
}

TEST_P(PipelineEngine, APausedRowGoesOnAsIfNothingHappened) {
  const auto tiny = engine_on(GetParam().devices, GetParam().steps);
  const auto beside = tiny->submit({TinyEngine::greedy("runs on", 2000)});
  const TinyEngine::Said said = tiny->run_paused("pause here");
  EXPECT_EQ(said.text, tiny->run(TinyEngine::greedy("pause here", said.tokens)).text);
  beside->finished();
}

// One after the other, so that prompts are cut alike.
TEST_P(PipelineEngine, RandomRequestsAnswerAsOnOneDevice) {
  const auto one = engine_on(1, 1), several = engine_on(GetParam().devices, GetParam().steps);
  RandomAsks asks(11), same(11);
  for (int i = 0; i < 60 && !HasFailure(); i++) {
    SCOPED_TRACE("request " + std::to_string(i));
    Ask first = asks.next(), second = same.next();
    const std::string session = first.state.write_session;
    expect_equal(one->run(std::move(first)), several->run(std::move(second)));
    if (session.empty()) continue;
    const auto wanted = one->engine().export_session({}, session),
               found = several->engine().export_session({}, session);
    ASSERT_EQ(wanted.ok(), found.ok());
    if (!wanted.ok()) continue;
    EXPECT_EQ(found->tokens, wanted->tokens);
    EXPECT_EQ(found->payload, wanted->payload) << "the state, bit for bit";
  }
}

// The second prompt begins as the first does, of which pieces are under way when it comes.
TEST_P(PipelineEngine, ARowWaitsForTheBeginningThatAnotherOneIsBeingFed) {
  const std::string beginning(300, 'b');
  const auto told = [&](TinyEngine& tiny) {
    std::vector<std::string> texts;
    for (const auto& [index, row] :
         tiny.submit({TinyEngine::greedy(beginning + "one", 6), TinyEngine::greedy(beginning + "two", 6)})
             ->finished(2)) {
      texts.push_back(row.text);
      EXPECT_EQ(row.last->usage.cached_tokens >= 300, index == 1);
    }
    return texts;
  };
  EXPECT_EQ(told(*engine_on(GetParam().devices, GetParam().steps)), told(*engine_on(1, 1)));
}

TEST_P(PipelineEngine, ACancelledPromptEndsWithPiecesUnderWay) {
  const auto tiny = engine_on(GetParam().devices, GetParam().steps);
  std::string id;
  const auto running = tiny->submit({TinyEngine::greedy(std::string(2'000'000, 'p'), 4)}, &id);
  ASSERT_TRUE(running->wait_until([](const auto& rows) { return rows.contains(0); }));
  EXPECT_TRUE(tiny->engine().cancel({}, id));
  EXPECT_EQ(running->finished().at(0).last->reason, FinishReason::cancelled);
  EXPECT_EQ(tiny->run(TinyEngine::greedy("next", 5)).last->usage.completion_tokens, 5);
}

// The last of two stages goes on only when the first is at the prompt's next piece.
TEST(Pipeline, APromptsPiecesFollowOneAnotherThroughTheStages) {
  std::mutex mutex;
  std::condition_variable changed;
  int first_stage = 0, last_stage = 0;
  bool followed = true;
  std::vector<std::unique_ptr<Ops>> stages;
  stages.push_back(std::make_unique<WatchedOps>([&] {
    std::lock_guard lock(mutex);
    first_stage++;
    changed.notify_all();
  }));
  stages.push_back(std::make_unique<WatchedOps>([&] {
    std::unique_lock lock(mutex);
    if (++last_stage > 1) return;
    followed = changed.wait_for(lock, std::chrono::seconds(20), [&] { return first_stage > 1; });
  }));
  TinyEngine tiny({.slots = 4, .prefill_chunk = 16}, std::move(stages), 2);
  Ask ask = TinyEngine::greedy(std::string(40, 'p'), 1);
  ask.use_prefix_cache = false;
  EXPECT_EQ(tiny.run(std::move(ask)).last->usage.prompt_tokens, 40);
  EXPECT_TRUE(followed) << "the second piece waited for the first to leave the pipeline";
}

TEST_P(PipelineEngine, EndsWithStepsUnderWay) {
  const auto tiny = engine_on(GetParam().devices, GetParam().steps);
  const auto running = tiny->submit({TinyEngine::greedy("a", 1'000'000), TinyEngine::greedy("b", 1'000'000),
                                     TinyEngine::greedy("c", 1'000'000)});
  ASSERT_TRUE(
      running->wait_until([](const auto& rows) { return rows.contains(2) && rows.at(2).sampled > 0; }));
  tiny->stop();
  for (const auto& [index, row] : running->finished(3)) EXPECT_EQ(row.last->reason, FinishReason::stopping);
}

TEST_P(PipelineEngine, AFailedDeviceEndsEveryRow) {
  std::atomic<int> steps = 20;
  std::atomic<int> failures = 0;
  EngineOptions options{.slots = 4, .prefill_chunk = 16};
  options.on_failure = [&](const std::string&) { failures++; };
  const auto tiny = engine_on(GetParam().devices, GetParam().steps, options, [&] {
    if (steps-- <= 0) throw DeviceFailure("the bus has gone");
  });
  const auto running = tiny->submit({TinyEngine::greedy("a", 1'000'000), TinyEngine::greedy("b", 1'000'000),
                                     TinyEngine::greedy("c", 1'000'000), TinyEngine::greedy("d", 1'000'000),
                                     TinyEngine::greedy("waits", 3)});
  for (const auto& [index, row] : running->finished(5)) {
    EXPECT_EQ(row.last->reason, FinishReason::failed);
    ASSERT_TRUE(row.last->error.has_value());
    EXPECT_EQ(row.last->error->text, "the device has failed: the bus has gone");
  }
  tiny->stop();
  EXPECT_EQ(failures, 1);
}

INSTANTIATE_TEST_SUITE_P(Forms, PipelineEngine,
                         ::testing::Values(Form{"two", 2, 2}, Form{"three", 3, 3}, Form{"four_steps", 2, 4},
                                           Form{"one_step", 3, 1}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace fulmar
