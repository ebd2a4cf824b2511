// What a row starts from besides a session: the saved state of a prompt's beginning, a tuned state, a
// mixture of them.
#include <gtest/gtest.h>

#include <cmath>

#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::fresh;
using testing::RecordingListener;
using testing::RowLog;
using testing::TinyEngine;

TEST(Prefixes, ReuseChangesNoTokenAndIsReported) {
  TinyEngine tiny({.slots = 3, .prefill_chunk = 32});
  const std::string shared(200, 's');
  const auto ask = [&](const std::string& end, bool cached) {
    Ask one = fresh(shared + end, 10);
    one.use_prefix_cache = cached;
    return one;
  };
  EXPECT_EQ(tiny.run(ask(" first", true)).last->usage.cached_tokens, 0);
  for (const char* end : {" second", " third", " and a rather long fourth ending"}) {
    const RowLog cached = tiny.run(ask(end, true));
    EXPECT_GE(cached.last->usage.cached_tokens, 160) << end;
    EXPECT_EQ(bytes_of(cached), bytes_of(tiny.run(ask(end, false)))) << end;
  }
}

TEST(Prefixes, RequestsThatArriveTogetherComputeASharedBeginningOnce) {
  TinyEngine tiny({.slots = 4, .prefill_chunk = 32});
  const std::string shared(400, 'p');
  std::vector<Ask> rows;
  for (int i = 0; i < 12; i++) rows.push_back(fresh(shared + " row " + std::to_string(i), 4));
  for (Ask& row : rows) row.use_prefix_cache = true;
  const auto done = tiny.submit(rows)->finished(12);
  int64_t cached = 0;
  for (const auto& [index, row] : done) {
    cached += row.last->usage.cached_tokens;
    EXPECT_EQ(bytes_of(row), bytes_of(tiny.run(fresh(shared + " row " + std::to_string(index), 4))));
  }
  EXPECT_GE(cached, 11 * 390) << "fed once, not twelve times";
}

TEST(Prefixes, OfPromptsThatAreFedInPiecesEndWithAPiece) {
  constexpr int64_t kPiece = 32;
  TinyEngine tiny({.slots = 4, .prefill_chunk = kPiece, .prompt_piece = kPiece});
  const std::string shared(400, 'p');
  std::vector<Ask> rows;
  for (int i = 0; i < 12; i++) rows.push_back(fresh(shared + " row " + std::to_string(i), 4));
  for (Ask& row : rows) row.use_prefix_cache = true;
  int64_t cached = 0;
  for (const auto& [index, row] : tiny.submit(rows)->finished(12)) {
    cached += row.last->usage.cached_tokens;
    EXPECT_EQ(row.last->usage.cached_tokens % kPiece, 0);
    EXPECT_EQ(bytes_of(row), bytes_of(tiny.run(fresh(shared + " row " + std::to_string(index), 4))));
  }
  EXPECT_GE(cached, 11 * 384) << "fed once, not twelve times";

  Ask first = fresh(std::string(40, 't'), 40);
  first.use_prefix_cache = true;
  Ask next = fresh(std::string(40, 't') + bytes_of(tiny.run(first)) + " next turn", 5);
  next.use_prefix_cache = true;
  EXPECT_LE(tiny.run(next).last->usage.cached_tokens, kPiece) << "answers are no pieces of prompts";
}

TEST(Prefixes, AnAnswerIsReusedByTheNextTurnOfItsConversation) {
  TinyEngine tiny;
  const std::string turn(60, 't');
  const std::string answer = bytes_of(tiny.run([&] {
    Ask ask = fresh(turn, 20);
    ask.use_prefix_cache = true;
    return ask;
  }()));
  Ask next = fresh(turn + answer + " next turn", 5);
  next.use_prefix_cache = true;
  EXPECT_GE(tiny.run(next).last->usage.cached_tokens, 60 + 19);
}

// A state for every layer, different in each row: the head norm takes out what all value channels share.
std::vector<std::vector<float>> some_state(TinyEngine& tiny, float scale) {
  const auto& config = tiny.model().config();
  std::vector<std::vector<float>> wkv(static_cast<size_t>(config.n_layer));
  const auto numbers = static_cast<size_t>(config.n_embd * config.head_size);
  for (auto& layer : wkv) {
    for (size_t i = 0; i < numbers; i++) layer.push_back(scale * std::sin(static_cast<float>(i * i)));
  }
  return wkv;
}

TEST(TunedStates, AStateStartsARowUnderItsName) {
  TinyEngine tiny;
  ASSERT_TRUE(tiny.engine().add_states({{"tuned", some_state(tiny, 1)}}).ok());
  EXPECT_EQ(tiny.engine().states(), std::vector<std::string>{"tuned"});
  Ask ask = fresh("with a tuned state, and long enough to be cached as well", 8);
  const std::string plain = bytes_of(tiny.run(ask));
  ask.state.initial_state = "tuned";
  const std::string tuned = bytes_of(tiny.run(ask));
  EXPECT_NE(tuned, plain);
  ask.use_prefix_cache = true;
  EXPECT_EQ(bytes_of(tiny.run(ask)), tuned) << "prefixes of different states are kept apart";
  EXPECT_EQ(bytes_of(tiny.run(ask)), tuned);
  EXPECT_TRUE(tiny.engine().remove_state("tuned"));
  EXPECT_EQ(tiny.run(ask).last->error->text, "tuned state 'tuned' is not loaded");
}

TEST(TunedStates, AreAddedTogetherOrNotAtAll) {
  TinyEngine tiny;
  ASSERT_TRUE(tiny.engine().add_states({{"a", some_state(tiny, 1)}, {"c", some_state(tiny, 2)}}).ok());
  Ask ask = fresh("from a tuned state", 8);
  ask.state.initial_state = "a";
  const std::string before = bytes_of(tiny.run(ask));
  auto wrong = some_state(tiny, 5);
  wrong.back().pop_back();
  EXPECT_FALSE(tiny.engine().add_states({{"a", some_state(tiny, -3)}, {"b", wrong}}).ok());
  EXPECT_EQ(tiny.engine().states(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(bytes_of(tiny.run(ask)), before);
  ASSERT_TRUE(tiny.engine().add_states({{"a", some_state(tiny, -3)}, {"b", some_state(tiny, 4)}}).ok());
  EXPECT_EQ(tiny.engine().states(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_NE(bytes_of(tiny.run(ask)), before);
}

int64_t slots_used(TinyEngine& tiny) {
  EXPECT_TRUE(tiny.engine()
                  .sessions({})
                  .ok());  // runs between two steps: the figures of the last one are out by then
  return tiny.engine().stats().slots_used;
}

// Log-probabilities of all ids for the first token of the answer.
std::vector<double> first_scores(TinyEngine& tiny, Ask ask) {
  const int32_t ids = static_cast<int32_t>(tiny.model().config().vocab);
  ask.sampling.top_logprobs = ids;
  ask.max_tokens = 1;
  std::vector<double> scores(static_cast<size_t>(ids));
  const RowLog row = tiny.run(ask);
  EXPECT_EQ(row.records.size(), 1u);
  for (const TokenLogprob& one : row.records.at(0).top) scores[static_cast<size_t>(one.token)] = one.logprob;
  return scores;
}

TEST(Mixtures, TheDrawIsFromTheWeightedMeanOfTheMembers) {
  TinyEngine tiny;
  ASSERT_TRUE(tiny.engine().add_states({{"one", some_state(tiny, 1)}, {"two", some_state(tiny, -2)}}).ok());
  Ask ask = fresh("what the members are fed, longer than one chunk of a mixture", 6);
  const auto of_state = [&](const std::string& name) {
    Ask alone = ask;
    alone.state.initial_state = name;
    return first_scores(tiny, alone);
  };
  const std::vector<double> one = of_state("one"), two = of_state("two"), zero = of_state("");
  Ask mixed = ask;
  mixed.state.mixture = {{"one", 3}, {"two", 1.5}, {"", 1.5}};
  const std::vector<double> found = first_scores(tiny, mixed);
  std::vector<double> wanted(one.size());
  double sum = 0;
  for (size_t i = 0; i < wanted.size(); i++) {
    wanted[i] = 0.5 * one[i] + 0.25 * two[i] + 0.25 * zero[i];
    sum += std::exp(wanted[i]);
  }
  for (size_t i = 0; i < wanted.size(); i++) EXPECT_NEAR(found[i], wanted[i] - std::log(sum), 1e-4) << i;

  // A weight of 1 beside zeros is the state alone, over many tokens; all slots come back.
  mixed.state.mixture = {{"one", 0}, {"two", 1}, {"", 0}};
  ask.state.initial_state = "two";
  EXPECT_EQ(bytes_of(tiny.run(mixed)), bytes_of(tiny.run(ask)));
  EXPECT_EQ(slots_used(tiny), 0);
}

TEST(Mixtures, WaitForAllTheirSlotsAndRefuseWhatTheyCannotKeep) {
  TinyEngine tiny({.slots = 2, .prefill_chunk = 16});
  Ask mixed = fresh("mixed", 4);
  mixed.state.mixture = {{"", 1}, {"", 1}};
  std::vector<Ask> rows{fresh("a", 20), mixed, fresh("b", 3)};
  const auto done = tiny.submit(rows)->finished(3);
  EXPECT_EQ(done.at(1).last->reason, FinishReason::length);
  EXPECT_EQ(bytes_of(done.at(1)), bytes_of(tiny.run(fresh("mixed", 4))));

  const auto refused = [&](const Ask& ask) {
    return !tiny.engine().submit({.rows = {ask}, .listener = std::make_shared<RecordingListener>()}).ok();
  };
  Ask bad = mixed;
  bad.state.write_session = "s";
  EXPECT_TRUE(refused(bad));
  bad = mixed;
  bad.embed = true;
  EXPECT_TRUE(refused(bad));
  bad = mixed;
  bad.state.mixture = {{"", 1}, {"", -1}};
  EXPECT_TRUE(refused(bad));
  bad.state.mixture.assign(3, {"", 1});
  EXPECT_TRUE(refused(bad)) << "more members than slots";
  bad.state.mixture = {{"nowhere", 1}, {"", 1}};
  EXPECT_EQ(tiny.run(bad).last->error->text, "tuned state 'nowhere' is not loaded");
  EXPECT_EQ(slots_used(tiny), 0);
}

}  // namespace
}  // namespace fulmar
