// An engine on a model over several devices, with several steps under way: what is said and kept is what one
// device says and keeps.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "ops/device.h"
#include "support/mixed_load.h"
#include "support/tiny_engine.h"
#include "support/watched_ops.h"

namespace fulmar {
namespace {

using support::WatchedOps;
using testing::expect_same_answers;
using testing::mixed_load;
using testing::MixedAnswers;
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
    const auto blob = from.engine().export_session("s");
    ASSERT_TRUE(blob.ok());
    const Status taken = to.engine().import_session("s", *blob);
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
  EXPECT_TRUE(tiny->engine().cancel(id));
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

TEST_P(PipelineEngine, EndsWithStepsUnderWay) {
  const auto tiny = engine_on(GetParam().devices, GetParam().steps);
  const auto running = tiny->submit({TinyEngine::greedy("a", 1'000'000), TinyEngine::greedy("b", 1'000'000),
                                     TinyEngine::greedy("c", 1'000'000)});
  ASSERT_TRUE(
      running->wait_until([](const auto& rows) { return rows.contains(2) && rows.at(2).sampled > 0; }));
  tiny->stop();
  for (const auto& [index, row] : running->finished(3)) EXPECT_EQ(row.last->reason, FinishReason::cancelled);
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
