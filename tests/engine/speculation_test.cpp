// Speculative decoding changes when tokens are computed and nothing else: texts, ends, log-probabilities and
// the states behind them are those without drafts.
#include "engine/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "cpu/cpu_backend.h"
#include "support/random_asks.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::expect_equal;
using testing::keep_company;
using testing::RandomAsks;
using testing::RecordingListener;
using testing::RowLog;
using testing::TinyEngine;

constexpr int64_t kMostDrafts = 7;

class LateOps final : public CpuOps {
 public:
  using CpuOps::CpuOps;
  bool asynchronous() const override { return true; }
  bool begin_sample(Tensor logits, std::span<const SampleRow> rows) override {
    draws_begun++;
    return CpuOps::begin_sample(logits, rows);
  }

  int64_t draws_begun = 0;  // before anybody wanted their tokens
};

std::unique_ptr<Ops> revocable_ops(bool asynchronous = false, int64_t every = 1) {
  const CpuOptions options{.threads = 1, .state_writes = {.every = every, .revocable = kMostDrafts + 1}};
  if (asynchronous) return std::make_unique<LateOps>(options);
  return make_cpu_ops(options);
}

EngineOptions with_drafts(int64_t slots = 4, bool always = true) {
  EngineOptions options{.slots = slots, .prefill_chunk = 16};
  options.speculation = {.ngrams = true, .most = kMostDrafts, .always = always};
  return options;
}

struct Drafting {
  explicit Drafting(EngineOptions options = with_drafts(), int version = 7, bool asynchronous = false,
                    int64_t every = 1)
      : tiny(options, version, nullptr, revocable_ops(asynchronous, every)) {}
  TinyEngine tiny;

  DraftCount drafts(DraftSource source) {
    tiny.engine().stats();
    return tiny.engine().stats().drafts[static_cast<size_t>(source)];
  }
};

// A model that drafts, on ops of its own.
struct SmallModel {
  explicit SmallModel(int version, int64_t vocabulary = 256) : ops(make_cpu_ops({.threads = 1})) {
    SyntheticSpec spec = TinyEngine::spec(version);
    spec.vocab = vocabulary;
    model = Model::load(synthetic_checkpoint(spec), *ops, {.max_rows = 64}).value();
  }
  EngineOptions drafts_for(int64_t slots, bool ngrams = false) {
    EngineOptions options = with_drafts(slots);
    options.speculation.ngrams = ngrams;
    options.speculation.draft_model = model.get();
    options.speculation.draft_ops = ops.get();
    return options;
  }

  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
};

// The tokens of a row; without records, as far as they are text.
std::vector<int32_t> tokens_of(const RowLog& row) {
  if (row.records.empty()) return ByteTokenizer().Tokenizer::encode(row.text);
  std::vector<int32_t> tokens;
  for (const TokenRecord& record : row.records) tokens.push_back(record.token);
  return tokens;
}

struct Variant {
  int version = 7;
  uint64_t seed = 1;
  bool asynchronous = false;
  int64_t every = 1;  // rows behind which states are written
  SmallModel* small = nullptr;
};

void compare_random_requests(const Variant& variant, int64_t requests) {
  const uint64_t seed = variant.seed;
  TinyEngine plain({.slots = 3, .prefill_chunk = 16}, variant.version);
  Drafting drafting(variant.small != nullptr ? variant.small->drafts_for(3, true) : with_drafts(3),
                    variant.version, variant.asynchronous, variant.every);
  TinyEngine& drafted = drafting.tiny;
  const std::string company = keep_company(plain), other = keep_company(drafted);
  RandomAsks asks(seed), same(seed);
  for (int64_t i = 0; i < requests && !::testing::Test::HasFailure(); i++) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " request " + std::to_string(i));
    Ask first = asks.next(), second = same.next();
    const std::string session = first.state.write_session;
    const RowLog expected = plain.run(std::move(first));
    if (asks.chance(2)) second.prediction = asks.nearly(tokens_of(expected));
    (void)same.chance(2);
    if (!second.prediction.empty()) (void)same.nearly(tokens_of(expected));
    expect_equal(expected, drafted.run(std::move(second)));
    if (session.empty()) continue;
    const auto before = plain.engine().export_session({}, session),
               after = drafted.engine().export_session({}, session);
    ASSERT_EQ(before.ok(), after.ok());
    if (!before.ok()) continue;
    EXPECT_EQ(before->tokens, after->tokens);
    EXPECT_EQ(before->payload, after->payload) << "the state, bit for bit";
  }
  EXPECT_TRUE(plain.engine().cancel({}, company));
  EXPECT_TRUE(drafted.engine().cancel({}, other));
  const DraftCount ngrams = drafting.drafts(DraftSource::ngram),
                   predicted = drafting.drafts(DraftSource::prediction);
  if (variant.small == nullptr) {
    EXPECT_GT(ngrams.accepted, requests / 4);
    EXPECT_GT(ngrams.drafted, ngrams.accepted);
  } else {
    const DraftCount guessed = drafting.drafts(DraftSource::model);
    EXPECT_GT(guessed.accepted, requests / 4);
    EXPECT_GT(guessed.drafted, guessed.accepted);
  }
  EXPECT_GT(predicted.accepted, requests / 4);
  EXPECT_GT(predicted.drafted, predicted.accepted);
}

// FULMAR_SPECULATION_REQUESTS: how many random requests of each kind; the default takes seconds.
int64_t requests_wanted() {
  const char* const wanted = std::getenv("FULMAR_SPECULATION_REQUESTS");
  return wanted != nullptr ? std::max<int64_t>(1, std::atoll(wanted)) : 120;
}

TEST(Speculation, RandomRequestsAnswerAsWithoutDrafts) {
  compare_random_requests({.version = 7, .seed = 1}, requests_wanted());
}

TEST(Speculation, RandomRequestsAnswerAsWithoutDraftsOnRwkv6) {
  compare_random_requests({.version = 6, .seed = 2}, requests_wanted());
}

TEST(Speculation, RandomRequestsAnswerAsWithoutDraftsWithDeferredWrites) {
  compare_random_requests({.seed = 3, .every = 4}, requests_wanted());
}

TEST(Speculation, RandomRequestsAnswerAsWithoutDraftsOnAnAsynchronousDevice) {
  compare_random_requests({.seed = 4, .asynchronous = true}, requests_wanted());
}

// Run-ahead beside drafts: the next step waits for a token only where drafts may follow it.
TEST(Speculation, RowsThatNothingIsDraftedForRunAhead) {
  auto late = std::make_unique<LateOps>(
      CpuOptions{.threads = 1, .state_writes = {.every = 1, .revocable = kMostDrafts + 1}});
  const LateOps& ops = *late;
  TinyEngine tiny(with_drafts(), 7, nullptr, std::move(late));
  Ask ask = TinyEngine::greedy("never the same", 12);
  ask.sampling.temperature = 50;  // hardly a pair of bytes comes twice
  EXPECT_EQ(tiny.run(ask).last->usage.completion_tokens, 12);
  EXPECT_GT(ops.draws_begun, 6);
  Ask predicted = TinyEngine::greedy("said before", 30);
  predicted.sampling.top_logprobs = 0;
  predicted.prediction = tokens_of(tiny.run(predicted));
  const int64_t before = ops.draws_begun;
  EXPECT_GT(tiny.run(std::move(predicted)).last->usage.accepted_draft_tokens, 20);
  EXPECT_LE(ops.draws_begun - before, 1) << "no more than its last token";
}

TEST(Speculation, AProposalIsJudgedOnce) {
  Speculation speculation({.ngrams = true}, {.rows = 64, .wanted = 64, .revocable = kMostDrafts + 1},
                          nullptr);
  Sequence sequence;
  sequence.drafts.proposal = {'a'};
  const std::vector<SampledToken> right = {{.token = 'a'}}, wrong = {{.token = 'b'}};
  speculation.learn(sequence, 0, right);
  const double rate = sequence.drafts.rates[0].value(0.5);
  EXPECT_GT(rate, 0.5);
  speculation.learn(sequence, 0, wrong);
  EXPECT_EQ(sequence.drafts.rates[0].value(0.5), rate) << "the second token is another one's";
}

// A text that begins to repeat itself while it is run ahead of.
TEST(Speculation, RowsThatRunAheadBeginToDraft) {
  const auto accepted = [](bool run_ahead) {
    EngineOptions options = with_drafts();
    options.run_ahead = run_ahead;
    Drafting drafting(options, 7, true);
    return drafting.tiny.run(TinyEngine::greedy("xyz", 300)).last->usage.accepted_draft_tokens;
  };
  const int64_t waiting = accepted(false);
  EXPECT_GT(waiting, 30);
  EXPECT_GT(accepted(true), waiting / 2);
}

TEST(Speculation, RandomRequestsAnswerAsWithoutDraftsOfAModel) {
  SmallModel same(7);
  compare_random_requests({.seed = 7, .small = &same}, requests_wanted());
  SmallModel rwkv6(6);
  compare_random_requests({.version = 6, .seed = 10, .asynchronous = true, .small = &rwkv6},
                          requests_wanted() / 2);
}

TEST(Speculation, AModelThatDraftsForItselfIsAlwaysRight) {
  SmallModel same(7);
  Drafting drafting(same.drafts_for(2));
  TinyEngine plain;
  for (const std::string prompt :
       {"a", "some longer prompt that takes more than one chunk of rows to feed", "b"}) {
    const RowLog row = drafting.tiny.run(TinyEngine::greedy(prompt, 60));
    EXPECT_EQ(row.text, plain.run(TinyEngine::greedy(prompt, 60)).text);
    EXPECT_EQ(row.last->usage.rejected_draft_tokens, 0);
    EXPECT_GE(row.last->usage.accepted_draft_tokens, 60 * kMostDrafts / (kMostDrafts + 1) - kMostDrafts);
  }
}

TEST(Speculation, AModelThatIsAlwaysWrongChangesNothing) {
  SmallModel other(6);
  Drafting drafting(other.drafts_for(3));
  TinyEngine plain;
  const RowLog row = drafting.tiny.run(TinyEngine::greedy("a prompt", 60));
  EXPECT_EQ(row.text, plain.run(TinyEngine::greedy("a prompt", 60)).text);
  EXPECT_GT(row.last->usage.rejected_draft_tokens, row.last->usage.accepted_draft_tokens);
}

TEST(Speculation, ADraftModelWithAnotherVocabularyIsRefused) {
  SmallModel small(7, 128);
  TinyEngine tiny;
  const auto engine = Engine::start(tiny.model(), tiny.tokenizer(), small.drafts_for(2), tiny.ladder());
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().text.find("the draft model has 128 tokens; wanted 256"), std::string::npos);
}

TEST(Speculation, RowsThatComeAndGoHandTheDraftModelOn) {
  SmallModel same(7);
  Drafting drafting(same.drafts_for(2, true), 7, true);
  TinyEngine plain;
  std::vector<Ask> rows;
  std::vector<std::string> expected;
  for (int i = 0; i < 12; i++) {
    const std::string prompt(static_cast<size_t>(1 + 3 * i), static_cast<char>('a' + i));
    rows.push_back(TinyEngine::greedy(prompt, 10 + i));
    expected.push_back(plain.run(TinyEngine::greedy(prompt, 10 + i)).text);
  }
  const auto answered = drafting.tiny.submit(std::move(rows))->finished(12);
  for (int i = 0; i < 12; i++)
    EXPECT_EQ(answered.at(i).text, expected[static_cast<size_t>(i)]) << "row " << i;
}

TEST(Speculation, ManyRowsAtOnceAnswerAsWithoutDrafts) {
  TinyEngine plain({.slots = 4, .prefill_chunk = 16});
  for (const bool always : {true, false}) {
    Drafting drafting(with_drafts(4, always));
    RandomAsks asks(5), same(5);
    std::vector<Ask> rows, again;
    for (int i = 0; i < 40; i++) {
      rows.push_back(asks.next());
      again.push_back(same.next());
      rows.back().state = again.back().state = {};
    }
    const auto expected = plain.submit(std::move(rows))->finished(40);
    const auto found = drafting.tiny.submit(std::move(again))->finished(40);
    for (int i = 0; i < 40; i++) EXPECT_EQ(expected.at(i).text, found.at(i).text) << "row " << i;
  }
}

TEST(Speculation, ARightPredictionTakesFewSteps) {
  TinyEngine plain;
  Ask first = TinyEngine::greedy("predict this", 64);
  first.sampling.top_logprobs = 0;
  const RowLog expected = plain.run(std::move(first));
  Drafting drafting;
  Ask ask = TinyEngine::greedy("predict this", 64);
  ask.prediction = tokens_of(expected);
  const RowLog row = drafting.tiny.run(std::move(ask));
  EXPECT_EQ(row.text, expected.text);
  const EngineStats stats = drafting.tiny.engine().stats();
  EXPECT_LE(stats.steps, 2 + 64 / (kMostDrafts + 1));
  EXPECT_EQ(stats.generated_tokens, 64);
  EXPECT_EQ(row.last->usage.rejected_draft_tokens, 0);
}

TEST(Speculation, AWrongPredictionChangesNothingAndIsCounted) {
  TinyEngine plain;
  Ask first = TinyEngine::greedy("predict this", 40);
  first.sampling.top_logprobs = 0;
  const RowLog expected = plain.run(std::move(first));
  Drafting drafting;
  Ask ask = TinyEngine::greedy("predict this", 40);
  ask.prediction = tokens_of(expected);
  ask.prediction.resize(4);  // what follows goes wrong
  ask.prediction.insert(ask.prediction.end(), 36, 'x');
  const RowLog row = drafting.tiny.run(std::move(ask));
  EXPECT_EQ(row.text, expected.text);
  EXPECT_GT(row.last->usage.rejected_draft_tokens, 0);
  EXPECT_LT(drafting.drafts(DraftSource::prediction).accepted, 36);
}

TEST(Speculation, RowsThatAskForNoneHaveNone) {
  Drafting drafting;
  Ask ask = TinyEngine::greedy("abababababab", 64);
  ask.speculate = false;
  ask.prediction = std::vector<int32_t>(40, 'x');
  const RowLog row = drafting.tiny.run(std::move(ask));
  EXPECT_EQ(row.last->usage.accepted_draft_tokens + row.last->usage.rejected_draft_tokens, 0);
}

TEST(Speculation, ABackendThatCannotRollBackDraftsNothing) {
  TinyEngine tiny(with_drafts());
  Ask ask = TinyEngine::greedy("abababababab", 64);
  ask.prediction = std::vector<int32_t>(40, 'x');
  const RowLog row = tiny.run(std::move(ask));
  EXPECT_EQ(row.last->usage.accepted_draft_tokens + row.last->usage.rejected_draft_tokens, 0);
}

TEST(Speculation, AMixtureOfStatesIsAnsweredAsWithoutDrafts) {
  const auto ask = [] {
    Ask one = TinyEngine::greedy("abababababab", 40);
    one.state.mixture = {{.state = {}, .weight = 1}, {.state = {}, .weight = 2}};
    return one;
  };
  TinyEngine plain;
  Drafting drafting;
  EXPECT_EQ(drafting.tiny.run(ask()).text, plain.run(ask()).text);
}

TEST(Speculation, APredictionOfUnknownIdsIsRefusedByName) {
  Drafting drafting;
  Ask ask = TinyEngine::greedy("a", 4);
  ask.request_id = "one";
  ask.prediction = {1, 256};
  std::vector<Ask> rows;
  rows.push_back(std::move(ask));
  const Status refused = drafting.tiny.engine().submit(
      {.rows = std::move(rows), .listener = std::make_shared<RecordingListener>()});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("the prediction has token id 256; wanted 0 to 255"), std::string::npos);
}

TEST(Speculation, PausedInMidDraftAndResumedIsTheUninterruptedText) {
  TinyEngine plain;
  const std::string whole = plain.run(TinyEngine::greedy("pause here", 400)).text;
  Drafting drafting(with_drafts(), 7, true);
  TinyEngine& tiny = drafting.tiny;
  std::string id;
  auto listener = tiny.submit({TinyEngine::greedy("pause here", 400)}, &id, true);
  std::string text;
  for (int pauses = 0; pauses < 5; pauses++) {
    ASSERT_TRUE(listener->wait_until([](const auto& rows) {
      return rows.contains(0) && (rows.at(0).sampled > 9 || rows.at(0).last.has_value());
    }));
    if (!tiny.engine().pause({}, id).ok()) break;  // it was quicker
    text += listener->finished().at(0).text;
    listener = std::make_shared<RecordingListener>();
    ASSERT_TRUE(tiny.engine().resume({}, id, -1, listener).ok());
  }
  EXPECT_EQ(text + listener->finished().at(0).text, whole);
}

// Rows come, are cancelled and go while others draft: slots that were left in mid-draft start afresh.
TEST(Speculation, CancelsAmongDraftsLeaveNothingBehind) {
  TinyEngine plain;
  Drafting drafting(with_drafts(2), 7, true);
  TinyEngine& tiny = drafting.tiny;
  std::mt19937 random(7);
  for (int round = 0; round < 20; round++) {
    std::string id;
    auto cut = tiny.submit({TinyEngine::greedy("abcabcabc", 100'000)}, &id);
    const auto seen = static_cast<int64_t>(1 + random() % 40);
    ASSERT_TRUE(
        cut->wait_until([&](const auto& rows) { return rows.contains(0) && rows.at(0).sampled >= seen; }));
    const std::string prompt = "next " + std::to_string(round);
    const auto next = tiny.submit({TinyEngine::greedy(prompt, 30), TinyEngine::greedy("abab" + prompt, 30)});
    EXPECT_TRUE(tiny.engine().cancel({}, id));
    EXPECT_EQ(cut->finished().at(0).last->reason, FinishReason::cancelled);
    const auto rows = next->finished(2);
    EXPECT_EQ(rows.at(0).text, plain.run(TinyEngine::greedy(prompt, 30)).text);
    EXPECT_EQ(rows.at(1).text, plain.run(TinyEngine::greedy("abab" + prompt, 30)).text);
  }
  EXPECT_EQ(tiny.engine().stats().slots_used, 0);
}

TEST(Speculation, AnEngineThatEndsInMidDraftEndsItsRows) {
  auto drafting = std::make_unique<Drafting>(with_drafts(2), 7, true);
  const auto listener = drafting->tiny.submit({TinyEngine::greedy("abcabcabc", 1'000'000)});
  ASSERT_TRUE(
      listener->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 20; }));
  drafting.reset();
  EXPECT_EQ(listener->finished().at(0).last->reason, FinishReason::stopping);
}

}  // namespace
}  // namespace fulmar
