// Run-ahead changes when steps begin and nothing else: texts, ends, log-probabilities and the states behind
// them are those of an engine that waits for each token.
#include "engine/run_ahead.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/mixed_load.h"
#include "support/random_asks.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::expect_equal;
using testing::expect_same_answers;
using testing::keep_company;
using testing::mixed_load;
using testing::RandomAsks;
using testing::RowLog;
using testing::TinyEngine;

struct Form {
  int version = 7;
  int64_t every = 1;  // rows behind which states are written

  friend void PrintTo(const Form& form, std::ostream* out) {
    *out << "RWKV-" << form.version << ", written every " << form.every << " rows";
  }
};

EngineOptions options(bool run_ahead, int64_t slots = 3) {
  EngineOptions options{.slots = slots, .prefill_chunk = 16};
  options.run_ahead = run_ahead;
  return options;
}

std::unique_ptr<Ops> ops(const Form& form) {
  return make_cpu_ops({.threads = 1, .state_writes = {.every = form.every}});
}

// FULMAR_RUN_AHEAD_REQUESTS: how many random requests of each kind; the default takes seconds.
int64_t requests_wanted() {
  const char* const wanted = std::getenv("FULMAR_RUN_AHEAD_REQUESTS");
  return wanted != nullptr ? std::max<int64_t>(1, std::atoll(wanted)) : 150;
}

class RunAhead : public ::testing::TestWithParam<Form> {
 protected:
  TinyEngine waiting_{options(false), GetParam().version, nullptr, ops(GetParam())};
  TinyEngine ahead_{options(true), GetParam().version, nullptr, ops(GetParam())};
};

TEST_P(RunAhead, RandomRequestsAnswerAsWithoutIt) {
  const std::string company = keep_company(waiting_), other = keep_company(ahead_);
  RandomAsks asks(7), same(7);
  for (int64_t i = 0; i < requests_wanted() && !HasFailure(); i++) {
    SCOPED_TRACE("request " + std::to_string(i));
    Ask first = asks.next(), second = same.next();
    const std::string session = first.state.write_session;
    expect_equal(waiting_.run(std::move(first)), ahead_.run(std::move(second)));
    if (session.empty()) continue;
    const auto before = waiting_.engine().export_session({}, session),
               after = ahead_.engine().export_session({}, session);
    ASSERT_EQ(before.ok(), after.ok());
    if (!before.ok()) continue;
    EXPECT_EQ(before->tokens, after->tokens);
    EXPECT_EQ(before->payload, after->payload) << "the state, bit for bit";
  }
  EXPECT_TRUE(waiting_.engine().cancel({}, company));
  EXPECT_TRUE(ahead_.engine().cancel({}, other));
}

// Rows that end at any step beside rows that go on: a state that its last id ends is not fed what was begun.
TEST_P(RunAhead, RowsThatAnIdEndsLeaveTheirSessionsAsWithoutIt) {
  const auto ask = [](int i) {
    Ask one =
        testing::in_session("session-" + std::to_string(i), std::string(1, static_cast<char>('a' + i)), 60);
    one.sampling.temperature = 1;
    one.sampling.seed = static_cast<uint64_t>(i);
    for (int32_t id = i % 7; id < 256; id += 23) one.stop.ids.push_back(id);
    return one;
  };
  int ended_by_id = 0;
  for (int turn = 0; turn < 4; turn++) {
    std::vector<Ask> rows, again;
    for (int i = 0; i < 12; i++) rows.push_back(ask(i)), again.push_back(ask(i));
    const auto expected = waiting_.submit(std::move(rows))->finished(12);
    const auto found = ahead_.submit(std::move(again))->finished(12);
    for (int i = 0; i < 12; i++) {
      SCOPED_TRACE("turn " + std::to_string(turn) + " row " + std::to_string(i));
      ended_by_id += found.at(i).last->stop_id ? 1 : 0;
      expect_equal(expected.at(i), found.at(i));
      const std::string session = "session-" + std::to_string(i);
      const auto before = waiting_.engine().export_session({}, session),
                 after = ahead_.engine().export_session({}, session);
      ASSERT_TRUE(before.ok() && after.ok());
      EXPECT_EQ(before->tokens, after->tokens);
    }
  }
  EXPECT_GT(ended_by_id, 24);
}

TEST_P(RunAhead, MixedLoadsAnswerAsWithoutIt) {
  expect_same_answers(mixed_load(waiting_), mixed_load(ahead_));
}

TEST_P(RunAhead, APausedRowGoesOnAsIfItHadNotBeen) {
  const TinyEngine::Said said = ahead_.run_paused("pause here");
  EXPECT_EQ(said.text, waiting_.run(TinyEngine::greedy("pause here", said.tokens)).text);
}

TEST_P(RunAhead, CancelsLeaveNothingBehind) {
  const std::string text = waiting_.run(TinyEngine::greedy("afterwards", 40)).text;
  for (int i = 0; i < 20; i++) {
    std::string id;
    const auto listener = ahead_.submit({TinyEngine::greedy("one that is cancelled", 1'000'000)}, &id);
    EXPECT_TRUE(
        listener->wait_until([&](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > i; }));
    EXPECT_TRUE(ahead_.engine().cancel({}, id));
    EXPECT_EQ(listener->finished().at(0).last->reason, FinishReason::cancelled);
  }
  EXPECT_EQ(ahead_.run(TinyEngine::greedy("afterwards", 40)).text, text);
}

TEST_P(RunAhead, AnEngineThatEndsEndsItsRows) {
  const auto listener = ahead_.submit({TinyEngine::greedy("one that goes on", 1'000'000)});
  EXPECT_TRUE(
      listener->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  ahead_.stop();
  EXPECT_EQ(listener->finished().at(0).last->reason, FinishReason::stopping);
}

INSTANTIATE_TEST_SUITE_P(Forms, RunAhead, ::testing::Values(Form{7}, Form{6}, Form{7, 4}),
                         [](const auto& form) {
                           return "rwkv" + std::to_string(form.param.version) + "_written_every_" +
                                  std::to_string(form.param.every);
                         });

// Their logits lie on several devices, which have to bring them together before anything is drawn.
TEST(RunsAhead, SlicesThatGatherTheirLogitsWaitForTheirTokens) {
  const auto slices = [] {
    std::vector<std::unique_ptr<Ops>> devices;
    for (int i = 0; i < 2; i++) devices.push_back(make_cpu_ops({.threads = 1}));
    return devices;
  };
  TinyEngine waiting(options(false), slices()), ahead(options(true), slices());
  const Ask ask = TinyEngine::greedy("both of them", 30);
  EXPECT_EQ(ahead.run(ask).text, waiting.run(ask).text);
}

TEST(RunsAhead, OnlyWhatItsIdOrItsLengthEnds) {
  Sequence sequence{.ask = TinyEngine::greedy("a", 10), .request = std::make_shared<RequestRecord>()};
  EXPECT_FALSE(runs_ahead(sequence)) << "a prompt";
  sequence.phase = Sequence::Phase::decode;
  EXPECT_TRUE(runs_ahead(sequence));
  sequence.ask.stop.ids = {3};
  EXPECT_TRUE(runs_ahead(sequence));
  sequence.ask.stop.texts = {"end"};
  EXPECT_FALSE(runs_ahead(sequence)) << "its text decides";
  sequence.ask.stop.texts.clear();
  sequence.more_slots = {5};
  EXPECT_FALSE(runs_ahead(sequence)) << "a mixture";
  sequence.more_slots.clear();
  sequence.request->cancel_requested = true;
  EXPECT_FALSE(runs_ahead(sequence)) << "it is to end";
}

TEST(RunsAhead, ARowGoesOnWhileTheTokenThatIsDrawnIsNotItsLast) {
  Sequence sequence{.ask = TinyEngine::greedy("a", 3)};
  EXPECT_TRUE(goes_on(sequence));
  sequence.drawn = {1};
  EXPECT_TRUE(goes_on(sequence));
  sequence.drawn = {1, 2};
  EXPECT_FALSE(goes_on(sequence));
}

}  // namespace
}  // namespace fulmar
