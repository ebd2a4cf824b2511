// An engine on a model over several devices, with several steps under way: what is said and kept is what one
// device says and keeps.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "cpu/cpu_backend.h"
#include "ops/device.h"
#include "support/mixed_load.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::mixed_load;
using testing::MixedAnswers;
using testing::RowLog;
using testing::TinyEngine;

// Calls `before` in front of each of its steps.
class WatchedOps final : public CpuOps {
 public:
  explicit WatchedOps(std::function<void()> before) : CpuOps({.threads = 1}), before_(std::move(before)) {}
  Batch begin_step(const StepInput& input, const State& state) override {
    if (before_) before_();
    return CpuOps::begin_step(input, state);
  }

 private:
  const std::function<void()> before_;
};

std::unique_ptr<TinyEngine> engine_on(size_t devices, int64_t steps,
                                      EngineOptions options = {.slots = 4, .prefill_chunk = 16},
                                      std::function<void()> before_last = {}) {
  std::vector<std::unique_ptr<Ops>> stages;
  for (size_t i = 0; i < devices; i++) {
    stages.push_back(std::make_unique<WatchedOps>(i + 1 == devices ? before_last : std::function<void()>()));
  }
  return std::make_unique<TinyEngine>(options, std::move(stages), steps);
}

constexpr float kTolerance = 1e-4f;

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], kTolerance) << "number " << i;
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
  const MixedAnswers plain = answers_of(1, 1), got = answers_of(GetParam().devices, GetParam().steps);
  ASSERT_EQ(plain.rows.size(), got.rows.size());
  for (size_t i = 0; i < plain.rows.size(); i++) {
    SCOPED_TRACE(i);
    EXPECT_EQ(plain.rows[i].text, got.rows[i].text);
    EXPECT_EQ(plain.rows[i].last->reason, got.rows[i].last->reason);
    EXPECT_EQ(plain.rows[i].last->stop_id, got.rows[i].last->stop_id);
    expect_near(got.rows[i].last->embedding, plain.rows[i].last->embedding);
    EXPECT_EQ(plain.rows[i].last->usage.completion_tokens, got.rows[i].last->usage.completion_tokens);
    ASSERT_EQ(plain.rows[i].last->prompt_scores.size(), got.rows[i].last->prompt_scores.size());
    for (size_t j = 0; j < plain.rows[i].last->prompt_scores.size(); j++) {
      EXPECT_NEAR(plain.rows[i].last->prompt_scores[j].logprob, got.rows[i].last->prompt_scores[j].logprob,
                  kTolerance);
    }
  }
  EXPECT_EQ(plain.session.tokens, got.session.tokens);
  EXPECT_EQ(plain.session.layout, got.session.layout);
  // Prompts come in other pieces where more steps are under way: sums in another order.
  const auto numbers = [](const StateBlob& blob) {
    std::vector<float> values(blob.payload.size() / sizeof(float));
    std::memcpy(values.data(), blob.payload.data(), blob.payload.size());
    return values;
  };
  expect_near(numbers(got.session), numbers(plain.session));
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
  const std::string whole = tiny->run(TinyEngine::greedy("pause here", 300)).text;
  const auto beside = tiny->submit({TinyEngine::greedy("runs on", 2000)});
  std::string id;
  const auto first = tiny->submit({TinyEngine::greedy("pause here", 300)}, &id, true);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  ASSERT_TRUE(tiny->engine().pause(id).ok());
  const std::string head = first->finished().at(0).text;
  auto second = std::make_shared<testing::RecordingListener>();
  ASSERT_TRUE(tiny->engine().resume(id, -1, second).ok());
  EXPECT_EQ(head + second->finished().at(0).text, whole);
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
  std::atomic<int> steps_left = 20;
  std::atomic<int> failures = 0;
  EngineOptions options{.slots = 4, .prefill_chunk = 16};
  options.on_failure = [&](const std::string&) { failures++; };
  const auto tiny = engine_on(GetParam().devices, GetParam().steps, options, [&] {
    if (steps_left-- <= 0) throw DeviceFailure("the bus has gone");
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
