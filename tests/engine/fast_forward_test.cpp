// Fast-forward changes when tokens are computed and nothing else: texts, ends and the states behind them are
// those of an engine that draws each token that a mask forces.
#include <gtest/gtest.h>

#include "cpu/cpu_backend.h"
#include "engine/next_token.h"
#include "support/random_asks.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::bytes_of;
using testing::expect_equal;
using testing::LetterMask;
using testing::RandomAsks;
using testing::RecordingListener;
using testing::RowLog;
using testing::TinyEngine;

// Sums in one order whatever shares a step, on a device that may compute on its own.
class FixedOps final : public CpuOps {
 public:
  FixedOps(bool asynchronous, int64_t every)
      : CpuOps({.threads = 1, .state_writes = {.every = every}, .deterministic = true}),
        asynchronous_(asynchronous) {}
  bool asynchronous() const override { return asynchronous_; }

 private:
  const bool asynchronous_;
};

EngineOptions options(bool fast_forward, int64_t slots = 4) {
  return {.slots = slots, .prefill_chunk = 16, .fast_forward = fast_forward};
}

struct Form {
  int version = 7;
  bool asynchronous = false;
  int64_t every = 1;  // rows behind which states are written
};

std::unique_ptr<TinyEngine> engine_of(const Form& form, bool fast_forward) {
  return std::make_unique<TinyEngine>(options(fast_forward), form.version, nullptr,
                                      std::make_unique<FixedOps>(form.asynchronous, form.every));
}

Ask masked(const std::string& prompt, size_t letters) {
  Ask ask = TinyEngine::greedy(prompt, 1'000'000);
  ask.mask = std::make_shared<LetterMask>(letters);
  return ask;
}

int64_t forwarded(TinyEngine& tiny) { return tiny.engine().stats().forwarded_tokens; }

// A request of any kind, mostly with a mask.
Ask next_masked(RandomAsks& asks) {
  Ask ask = asks.next();
  if (!ask.mask && !asks.chance(4)) ask.mask = std::make_shared<LetterMask>(ask.prompt.size());
  return ask;
}

class FastForward : public ::testing::TestWithParam<Form> {
 protected:
  const std::unique_ptr<TinyEngine> plain_ = engine_of(GetParam(), false),
                                    forwards_ = engine_of(GetParam(), true);
};

TEST_P(FastForward, RandomRequestsAnswerAsWithoutIt) {
  RandomAsks asks(11), same(11);
  for (int i = 0; i < 250 && !HasFailure(); i++) {
    SCOPED_TRACE("request " + std::to_string(i));
    Ask first = next_masked(asks), second = next_masked(same);
    const std::string session = first.state.write_session;
    expect_equal(plain_->run(std::move(first)), forwards_->run(std::move(second)));
    if (session.empty()) continue;
    const auto before = plain_->engine().export_session({}, session),
               after = forwards_->engine().export_session({}, session);
    ASSERT_EQ(before.ok(), after.ok());
    if (!before.ok()) continue;
    EXPECT_EQ(before->tokens, after->tokens);
    EXPECT_EQ(before->payload, after->payload) << "the state, bit for bit";
  }
  EXPECT_GT(forwarded(*forwards_), 300);
  EXPECT_EQ(forwarded(*plain_), 0);
  EXPECT_EQ(plain_->engine().stats().generated_tokens, forwards_->engine().stats().generated_tokens);
}

TEST_P(FastForward, WhateverSharesItsStepsARowSaysTheSame) {
  RandomAsks asks(5), same(5);
  std::vector<Ask> rows;
  std::vector<RowLog> alone;
  for (int i = 0; i < 40; i++) {
    rows.push_back(next_masked(asks));
    Ask lone = next_masked(same);
    rows.back().state = lone.state = {};
    alone.push_back(plain_->run(std::move(lone)));
  }
  const auto together = forwards_->submit(std::move(rows))->finished(40);
  for (int i = 0; i < 40; i++) {
    SCOPED_TRACE("row " + std::to_string(i));
    expect_equal(alone[static_cast<size_t>(i)], together.at(i));
  }
}

TEST_P(FastForward, APausedRowGoesOnAsIfItHadNotBeen) {
  const std::string whole = plain_->run(masked("pause here", 500)).text;
  std::string id, text;
  auto listener = forwards_->submit({masked("pause here", 500)}, &id, true);
  for (int pauses = 0; pauses < 5; pauses++) {
    ASSERT_TRUE(listener->wait_until([](const auto& rows) {
      return rows.contains(0) && (rows.at(0).sampled > 9 || rows.at(0).last.has_value());
    }));
    if (!forwards_->engine().pause({}, id).ok()) break;  // it was quicker
    text += listener->finished().at(0).text;
    listener = std::make_shared<RecordingListener>();
    ASSERT_TRUE(forwards_->engine().resume({}, id, -1, listener).ok());
  }
  EXPECT_EQ(text + listener->finished().at(0).text, whole);
}

TEST_P(FastForward, CancelsLeaveNothingBehind) {
  const std::string text = plain_->run(masked("afterwards", 40)).text;
  for (int i = 0; i < 10; i++) {
    std::string id;
    const auto listener = forwards_->submit({masked("one that is cancelled", 1'000'000)}, &id);
    EXPECT_TRUE(
        listener->wait_until([&](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > i; }));
    EXPECT_TRUE(forwards_->engine().cancel({}, id));
    EXPECT_EQ(listener->finished().at(0).last->reason, FinishReason::cancelled);
  }
  EXPECT_EQ(forwards_->run(masked("afterwards", 40)).text, text);
  EXPECT_EQ(forwards_->engine().stats().slots_used, 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, FastForward,
                         ::testing::Values(Form{7}, Form{6}, Form{7, true}, Form{7, true, 4}),
                         [](const auto& form) {
                           return "rwkv" + std::to_string(form.param.version) +
                                  (form.param.asynchronous ? "_asynchronous" : "") + "_written_every_" +
                                  std::to_string(form.param.every);
                         });

TEST(FastForwards, TakesFewerSteps) {
  TinyEngine plain(options(false)), forwards(options(true));
  const RowLog expected = plain.run(masked("count the steps", 96)),
               row = forwards.run(masked("count the steps", 96));
  EXPECT_EQ(row.text, expected.text);
  EXPECT_EQ(row.last->usage.completion_tokens, 96);
  EXPECT_EQ(plain.engine().stats().steps, 96);
  EXPECT_EQ(forwards.engine().stats().steps, 96 - forwarded(forwards));
  EXPECT_GT(forwarded(forwards), 32);
}

TEST(FastForwards, SlicesAndPipelinesAnswerAsOneThatDraws) {
  const auto devices = [] {
    std::vector<std::unique_ptr<Ops>> both;
    for (int i = 0; i < 2; i++) both.push_back(std::make_unique<FixedOps>(false, 1));
    return both;
  };
  TinyEngine sliced(options(false), devices()), sliced_forwards(options(true), devices());
  EXPECT_EQ(sliced_forwards.run(masked("both of them", 90)).text,
            sliced.run(masked("both of them", 90)).text);
  EXPECT_GT(forwarded(sliced_forwards), 30);
  TinyEngine piped(options(false), devices(), 2), piped_forwards(options(true), devices(), 2);
  const auto rows = [] {
    std::vector<Ask> asks;
    for (size_t i = 0; i < 6; i++) asks.push_back(masked("row " + std::to_string(i), 50 + i));
    return asks;
  };
  const auto expected = piped.submit(rows())->finished(6), found = piped_forwards.submit(rows())->finished(6);
  for (int i = 0; i < 6; i++) EXPECT_EQ(found.at(i).text, expected.at(i).text) << "row " << i;
  EXPECT_GT(forwarded(piped_forwards), 100);
}

TEST(FastForwards, AMixtureOfStatesIsAnsweredAsWithoutIt) {
  const auto ask = [] {
    Ask one = masked("mix them", 60);
    one.state.mixture = {{.state = {}, .weight = 1}, {.state = {}, .weight = 2}};
    return one;
  };
  TinyEngine plain(options(false)), forwards(options(true));
  EXPECT_EQ(forwards.run(ask()).text, plain.run(ask()).text);
  EXPECT_GT(forwarded(forwards), 20);
}

TEST(FastForwards, WhoWantsLogProbabilitiesGetsThemOfTheSameTokens) {
  TinyEngine forwards(options(true));
  Ask ask = masked("score them", 60);
  ask.sampling.top_logprobs = 0;
  const RowLog scored = forwards.run(std::move(ask));
  EXPECT_EQ(forwarded(forwards), 0);
  EXPECT_EQ(forwards.run(masked("score them", 60)).text, bytes_of(scored));
  EXPECT_GT(forwarded(forwards), 20);
}

TEST(FastForwards, AStopTextAmongForcedTokensEndsTheRowThere) {
  TinyEngine plain(options(false)), forwards(options(true));
  const std::string whole = plain.run(masked("stop", 90)).text;
  for (size_t at = 0; at + 3 < whole.size(); at += 5) {
    const auto ask = [&] {
      Ask one = masked("stop", 90);
      one.stop.texts = {whole.substr(at, 3)};
      one.state = {.read_session = {}, .write_session = "s"};
      return one;
    };
    const RowLog expected = plain.run(ask()), row = forwards.run(ask());
    EXPECT_EQ(row.text, expected.text);
    EXPECT_EQ(row.last->stop_text, expected.last->stop_text);
    EXPECT_EQ(forwards.engine().export_session({}, "s")->tokens,
              plain.engine().export_session({}, "s")->tokens);
  }
}

// ---- what a request says of a token goes before what its grammar forces

TEST(ForcedToken, IsWhatTheMaskSays) {
  LetterMask mask(21);
  EXPECT_FALSE(forced_token({}, mask, 0));
  mask.accept('a');
  EXPECT_TRUE(forced_token({}, mask, 1));
  EXPECT_EQ(forced_token({}, mask, 1), mask.forced());
}

TEST(ForcedToken, NoneThatIsBannedBiasedOrAStop) {
  LetterMask mask(20);
  const int32_t token = mask.forced().value();
  Ask banned, biased, stopped, banned_later;
  banned.sampling.banned = {1, token};
  biased.sampling.logit_bias = {{token, -2.0f}};
  stopped.stop.ids = {token};
  banned_later.banned_at = {{.position = 3, .ids = {token}}};
  EXPECT_FALSE(forced_token(banned, mask, 0));
  EXPECT_FALSE(forced_token(biased, mask, 0));
  EXPECT_FALSE(forced_token(stopped, mask, 0));
  EXPECT_FALSE(forced_token(banned_later, mask, 3));
  EXPECT_EQ(forced_token(banned_later, mask, 2), token);
}

}  // namespace
}  // namespace fulmar
