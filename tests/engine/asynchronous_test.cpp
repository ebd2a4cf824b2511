// A device that says it is asynchronous gets its next step before anyone hears of the last one; what is said
// and kept does not change by it.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>

#include "cpu/cpu_backend.h"
#include "support/mixed_load.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::mixed_load;
using testing::MixedAnswers;
using testing::RowLog;
using testing::TinyEngine;

// Counts the steps that were handed to it.
class AsynchronousOps final : public CpuOps {
 public:
  AsynchronousOps(bool asynchronous, std::shared_ptr<std::atomic<int>> begun)
      : CpuOps({.threads = 1}), asynchronous_(asynchronous), begun_(std::move(begun)) {}

  bool asynchronous() const override { return asynchronous_; }
  Batch begin_step(const StepInput& input, const State& state) override {
    ++*begun_;
    return CpuOps::begin_step(input, state);
  }

 private:
  const bool asynchronous_;
  const std::shared_ptr<std::atomic<int>> begun_;
};

struct Device {
  explicit Device(bool asynchronous, EngineOptions options = {.slots = 4, .prefill_chunk = 16})
      : tiny(options, 7, nullptr, std::make_unique<AsynchronousOps>(asynchronous, begun)) {}

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
  Device plain(false), late(true);
  EXPECT_EQ(run_one(plain, 5)->steps_at_text, (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(run_one(late, 5)->steps_at_text, (std::vector<int>{2, 3, 4, 5, 5}))
      << "behind the last token there is nothing to begin";
}

TEST(Asynchronous, ARowStopsWhereItWouldHave) {
  Device late(true);
  run_one(late, 7);
  EXPECT_EQ(*late.begun, 7) << "no step for a row that has ended";
}

TEST(Asynchronous, ACancelledRowHasNoFurtherStep) {
  Device late(true);
  const auto listener = run_one(late, 1000, [&](size_t texts) {
    if (texts == 3) late.tiny.engine().cancel("one");
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
  const MixedAnswers plain = answers_of(false), late = answers_of(true);
  ASSERT_EQ(plain.rows.size(), late.rows.size());
  for (size_t i = 0; i < plain.rows.size(); i++) {
    SCOPED_TRACE(i);
    EXPECT_EQ(plain.rows[i].text, late.rows[i].text);
    EXPECT_EQ(plain.rows[i].sampled, late.rows[i].sampled);
    EXPECT_EQ(plain.rows[i].records.size(), late.rows[i].records.size());
    EXPECT_EQ(plain.rows[i].last->reason, late.rows[i].last->reason);
    EXPECT_EQ(plain.rows[i].last->stop_id, late.rows[i].last->stop_id);
    EXPECT_EQ(plain.rows[i].last->usage.completion_tokens, late.rows[i].last->usage.completion_tokens);
  }
  EXPECT_EQ(plain.session.tokens, late.session.tokens);
  EXPECT_EQ(plain.session.payload, late.session.payload);
}

TEST(Asynchronous, APausedRowTellsAllBeforeItIsResumed) {
  Device late(true);
  TinyEngine& tiny = late.tiny;
  const std::string whole = tiny.run(TinyEngine::greedy("pause here", 300)).text;
  std::string id;
  auto first = tiny.submit({TinyEngine::greedy("pause here", 300)}, &id, true);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  ASSERT_TRUE(tiny.engine().pause(id).ok());
  const std::string head = first->finished().at(0).text;
  auto second = std::make_shared<testing::RecordingListener>();
  ASSERT_TRUE(tiny.engine().resume(id, -1, second).ok());
  EXPECT_EQ(head + second->finished().at(0).text, whole);
}

}  // namespace
}  // namespace fulmar
