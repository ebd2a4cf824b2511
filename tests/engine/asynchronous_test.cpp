// A device that says it is asynchronous gets its next steps before anyone hears of the last one; what is said
// and kept does not change by it.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>

#include "support/mixed_load.h"
#include "support/tiny_engine.h"
#include "support/watched_ops.h"

namespace fulmar {
namespace {

using support::WatchedOps;
using testing::expect_same_answers;
using testing::mixed_load;
using testing::MixedAnswers;
using testing::RowLog;
using testing::TinyEngine;

EngineOptions without_run_ahead() {
  EngineOptions options{.slots = 4, .prefill_chunk = 16};
  options.run_ahead = false;
  return options;
}

// Counts the steps that were handed to it.
struct Device {
  explicit Device(bool asynchronous, EngineOptions options = {.slots = 4, .prefill_chunk = 16})
      : tiny(options, 7, nullptr,
             std::make_unique<WatchedOps>([counted = begun] { ++*counted; }, asynchronous)) {}

  const std::shared_ptr<std::atomic<int>> begun = std::make_shared<std::atomic<int>>(0);
  TinyEngine tiny;
};

// Notes how many steps had begun when each event came.
class CountingListener final : public Listener {
 public:
  explicit CountingListener(const std::atomic<int>& begun) : begun_(begun) {}

  void deliver(std::vector<Event> events) override {
    bool last = false;
    for (const Event& event : events) {
      if (event.sampled > 0) steps_at_text.push_back(begun_);
      last = last || event.kind == Event::Kind::finished;
    }
    if (on_text) on_text(steps_at_text.size());
    if (last) steps_at_end = begun_;
    if (last) ended.set_value();
  }

  std::vector<int> steps_at_text;
  int steps_at_end = 0;
  std::function<void(size_t texts)> on_text;
  std::promise<void> ended;

 private:
  const std::atomic<int>& begun_;
};

std::shared_ptr<CountingListener> run_one(Device& device, int64_t max_tokens,
                                          const std::function<void(size_t)>& on_text = {}) {
  auto listener = std::make_shared<CountingListener>(*device.begun);
  listener->on_text = on_text;
  Ask ask = TinyEngine::greedy("abc", max_tokens);
  ask.request_id = "one";
  std::vector<Ask> rows;
  rows.push_back(std::move(ask));
  EXPECT_TRUE(device.tiny.engine().submit({.rows = std::move(rows), .listener = listener}).ok());
  EXPECT_EQ(listener->ended.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  return listener;
}

TEST(Asynchronous, TheNextStepBeginsBeforeTheLastOneIsReported) {
  Device plain(false), late(true, without_run_ahead()), ahead(true);
  EXPECT_EQ(run_one(plain, 5)->steps_at_text, (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(run_one(late, 5)->steps_at_text, (std::vector<int>{2, 3, 4, 5, 5}))
      << "behind the last token there is nothing to begin";
  EXPECT_EQ(run_one(ahead, 5)->steps_at_text, (std::vector<int>{3, 4, 5, 5, 5}))
      << "and with run-ahead the one behind that";
}

TEST(Asynchronous, ARowStopsWhereItWouldHave) {
  for (const EngineOptions& options : {without_run_ahead(), EngineOptions{.slots = 4, .prefill_chunk = 16}}) {
    Device late(true, options);
    run_one(late, 7);
    EXPECT_EQ(*late.begun, 7) << "no step for a row that has ended";
  }
}

TEST(Asynchronous, ACancelledRowHasNoFurtherStep) {
  Device late(true, without_run_ahead());
  const auto listener = run_one(late, 1000, [&](size_t texts) {
    if (texts == 3) late.tiny.engine().cancel({}, "one");
  });
  EXPECT_EQ(listener->steps_at_text.at(2), 4);
  EXPECT_EQ(listener->steps_at_end, 4) << "the step that was under way, and none behind it";
  const RowLog next = late.tiny.run(TinyEngine::greedy("its slot is free", 4));
  EXPECT_EQ(next.last->usage.completion_tokens, 4);
}

MixedAnswers answers_of(bool asynchronous) {
  Device device(asynchronous, {.slots = 3, .prefill_chunk = 16});
  return mixed_load(device.tiny);
}

TEST(Asynchronous, TextsEndsAndStatesAreThoseOfAPlainDevice) {
  expect_same_answers(answers_of(true), answers_of(false));
}

TEST(Asynchronous, APausedRowTellsAllBeforeItIsResumed) {
  Device late(true);
  const TinyEngine::Said said = late.tiny.run_paused("pause here");
  EXPECT_EQ(said.text, late.tiny.run(TinyEngine::greedy("pause here", said.tokens)).text);
}

}  // namespace
}  // namespace fulmar
