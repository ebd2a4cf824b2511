// The engine as its callers see it: rows in, events out, on a small synthetic model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <set>

#include "base/utf8.h"
#include "model/state_pool.h"
#include "support/model_rig.h"
#include "support/reference.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::RowLog;
using testing::TinyEngine;

// The same greedy text without any engine: one token at a time through the model.
std::string plain_greedy(TinyEngine& tiny, const std::string& prompt, int64_t count) {
  auto pool = StatePool::make(tiny.ops(), tiny.model().state_layout(), 1);
  const int32_t slot = 0;
  std::string text;
  std::string fed = prompt;
  std::vector<float> logits(256);
  for (size_t i = 0; i < prompt.size() + static_cast<size_t>(count); i++) {
    if (i >= prompt.size()) {
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      text += static_cast<char>(best);
      fed += static_cast<char>(best);
    }
    const int32_t token = static_cast<unsigned char>(fed[i]);
    const std::vector<int32_t> start = {0, 1}, wanted = {0};
    const Tensor out = tiny.model().forward(
        {.token = {&token, 1}, .start = start, .slot = {&slot, 1}, .wanted = wanted}, *pool);
    tiny.ops().read(logits.data(), out.data, logits.size() * sizeof(float));
  }
  return text;
}

// Bytes as the engine shows them: invalid UTF-8 replaced, an unfinished end dropped.
std::string shown(const std::string& bytes) {
  Utf8Stream stream;
  return stream.push(bytes);
}

TEST(Engine, GreedyTextIsThatOfTheModelAlone) {
  for (const int version : kVersions) {
    TinyEngine tiny({.slots = 4, .prefill_chunk = 16}, version);
    const RowLog row = tiny.run(TinyEngine::greedy("The quick brown fox jumps over the lazy dog", 24));
    TinyEngine other({.slots = 1}, version);
    other.stop();
    EXPECT_EQ(row.text, shown(plain_greedy(other, "The quick brown fox jumps over the lazy dog", 24)));
    EXPECT_EQ(row.last->reason, FinishReason::length);
    EXPECT_EQ(row.last->usage.prompt_tokens, 43);
    EXPECT_EQ(row.last->usage.completion_tokens, 24);
    EXPECT_EQ(row.admitted, 1);
  }
}

TEST(Engine, ManyRowsGetWhatEachGetsAlone) {
  TinyEngine tiny({.slots = 3, .prefill_chunk = 7});
  std::vector<Ask> rows;
  std::vector<std::string> alone;
  for (int i = 0; i < 11; i++) {
    const std::string prompt =
        "Row " + std::string(static_cast<size_t>(i * 5 + 1), static_cast<char>('a' + i));
    alone.push_back(tiny.run(TinyEngine::greedy(prompt, 5 + i)).text);
    rows.push_back(TinyEngine::greedy(prompt, 5 + i));
  }
  const auto together = tiny.submit(std::move(rows))->finished(11);
  for (int i = 0; i < 11; i++) EXPECT_EQ(together.at(i).text, alone[static_cast<size_t>(i)]) << "row " << i;
  EXPECT_EQ(tiny.engine().stats().slots_used, 0);
}

TEST(Engine, ASeedGivesTheSameTextWhateverSharesTheBatch) {
  TinyEngine tiny;
  Ask ask = TinyEngine::greedy("Once upon a time", 30);
  ask.sampling = {.temperature = 1.0f, .top_p = 0.9f, .presence = 0.5f, .frequency = 0.2f, .seed = 77};
  const std::string alone = tiny.run(ask).text;
  std::vector<Ask> rows = {TinyEngine::greedy("other", 40), ask, TinyEngine::greedy("more", 3)};
  EXPECT_EQ(tiny.submit(std::move(rows))->finished(3).at(1).text, alone);
  ask.sampling.seed = 78;
  EXPECT_NE(tiny.run(ask).text, alone);
}

TEST(Engine, AStopIdEndsTheRowWithoutBeingShown) {
  TinyEngine tiny;
  const std::string text = plain_greedy(tiny, "stop", 40);
  const auto stop = static_cast<unsigned char>(text[10]);
  const size_t first = text.find(static_cast<char>(stop));
  Ask ask = TinyEngine::greedy("stop", 40);
  ask.stop.ids = {stop};
  ask.sampling.top_logprobs = 0;
  const RowLog row = tiny.run(ask);
  EXPECT_EQ(row.text, shown(text.substr(0, first)));
  EXPECT_EQ(row.last->reason, FinishReason::stop);
  EXPECT_EQ(row.last->stop_id, stop);
  EXPECT_EQ(row.last->usage.completion_tokens, static_cast<int64_t>(first));
  EXPECT_EQ(row.records.size(), first);
}

TEST(Engine, AStopTextCutsTheOutputAtItsStart) {
  TinyEngine tiny;
  const std::string text = plain_greedy(tiny, "stop text", 40);
  const std::string stop = text.substr(12, 3);
  Ask ask = TinyEngine::greedy("stop text", 40);
  ask.stop.texts = {"never to be seen", stop};
  ask.sampling.top_logprobs = 0;
  const RowLog row = tiny.run(ask);
  const size_t start = text.find(stop);
  EXPECT_EQ(row.text, shown(text.substr(0, start)));
  EXPECT_EQ(row.last->stop_text, stop);
  EXPECT_EQ(row.records.size(), start) << "no record of a token behind the cut";
  ask.stop.include_text = true;
  EXPECT_EQ(tiny.run(ask).text, shown(text.substr(0, start + stop.size())));
}

TEST(Engine, BannedIdsAreNotDrawnAtTheirPosition) {
  TinyEngine tiny;
  const std::string text = plain_greedy(tiny, "ban", 3);
  Ask ask = TinyEngine::greedy("ban", 3);
  ask.banned_at = {{.position = 1, .ids = {static_cast<unsigned char>(text[1])}}};
  ask.sampling.top_logprobs = 0;
  const RowLog row = tiny.run(ask);
  EXPECT_EQ(row.records[0].bytes, text.substr(0, 1));
  EXPECT_NE(row.records[1].bytes, text.substr(1, 1));
}

TEST(Engine, ALongPromptDelaysARunningStreamByOneChunkAtATime) {
  TinyEngine tiny({.slots = 2, .prefill_chunk = 16, .prefix_slots = 0, .prefixes = {.host_bytes = 0}});
  auto stream = tiny.submit({TinyEngine::greedy("stream", 100000)});
  ASSERT_TRUE(
      stream->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  const auto drawn = [&] {
    int64_t count = 0;
    stream->wait_until([&](const auto& rows) {
      count = rows.at(0).sampled;
      return true;
    });
    return count;
  };
  const int64_t before = drawn();
  auto prompt = tiny.submit({TinyEngine::greedy(std::string(1600, 'x'), 1)});
  prompt->finished();
  EXPECT_GE(drawn() - before, 1600 / 16 - 10) << "the stream went on beside each of the hundred chunks";
  tiny.engine().cancel_all({});
  EXPECT_EQ(stream->finished().at(0).last->reason, FinishReason::cancelled);
}

TEST(Engine, CancelFreesTheSlotForWhoeverWaits) {
  TinyEngine tiny({.slots = 1});
  std::string id;
  auto endless = tiny.submit({TinyEngine::greedy("endless", 1000000)}, &id);
  auto waiting = tiny.submit({TinyEngine::greedy("waits", 4)});
  ASSERT_TRUE(
      endless->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 0; }));
  EXPECT_TRUE(tiny.engine().cancel({}, id));
  EXPECT_EQ(endless->finished().at(0).last->reason, FinishReason::cancelled);
  EXPECT_EQ(waiting->finished().at(0).last->usage.completion_tokens, 4);
  EXPECT_FALSE(tiny.engine().cancel({}, id)) << "it has ended";
}

TEST(Engine, AFullQueueRefusesAtOnce) {
  TinyEngine tiny({.slots = 1, .max_queue = 2});
  auto endless = tiny.submit({TinyEngine::greedy("endless", 1000000)});
  ASSERT_TRUE(
      endless->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).admitted > 0; }));
  tiny.submit({TinyEngine::greedy("a", 1)});
  tiny.submit({TinyEngine::greedy("b", 1)});
  auto listener = std::make_shared<testing::RecordingListener>();
  Ask ask = TinyEngine::greedy("c", 1);
  ask.request_id = "one too many";
  const Status refused = tiny.engine().submit({.rows = {ask}, .listener = listener});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  tiny.engine().cancel_all({});
}

// A request is refused when the rows that wait, or what they take, would be more than the bound.
TEST(Engine, RowsThatWaitAreBoundedByNumberAndBytes) {
  const auto fill = [](EngineOptions options, size_t rows, size_t prompt) {
    TinyEngine tiny(options);
    auto endless = tiny.submit({TinyEngine::greedy("endless", 1000000)});
    EXPECT_TRUE(
        endless->wait_until([](const auto& logs) { return logs.contains(0) && logs.at(0).admitted > 0; }));
    int taken = 0;
    std::vector<std::shared_ptr<testing::RecordingListener>> waiting;
    for (int i = 0; i < 10; i++) {
      std::vector<Ask> asks(rows, TinyEngine::greedy(std::string(prompt, 'x'), 1));
      for (size_t row = 0; row < asks.size(); row++) {
        asks[row].request_id = "waiting " + std::to_string(i);
        asks[row].index = static_cast<int32_t>(row);
      }
      auto listener = std::make_shared<testing::RecordingListener>();
      const Status status = tiny.engine().submit({.rows = std::move(asks), .listener = listener});
      if (status.ok()) {
        taken++;
        waiting.push_back(std::move(listener));
      } else {
        EXPECT_EQ(status.error().kind, ErrorKind::unavailable);
      }
    }
    tiny.engine().cancel_all({});
    for (const auto& listener : waiting) listener->finished(rows);
    Ask later = TinyEngine::greedy("later", 1);
    EXPECT_EQ(tiny.run(later).last->reason, FinishReason::length) << "what was cancelled counts no more";
    return taken;
  };
  EXPECT_EQ(fill({.slots = 1, .max_waiting_rows = 100}, 25, 1), 4);
  EXPECT_EQ(fill({.slots = 1, .max_waiting_rows = 100}, 300, 1), 1) << "nobody waited when it came";
  EXPECT_EQ(fill({.slots = 1, .max_waiting_bytes = 1 << 20}, 1, 100'000), 2) << "0.4 MB each";
}

// The listener holds the model that the engine belongs to: kept by a paused request, neither would ever end.
TEST(Engine, ARequestLetsGoOfItsListenerWithItsLastEvent) {
  TinyEngine tiny;
  std::string id;
  auto listener = tiny.submit({TinyEngine::greedy("pause here", 100000)}, &id, true);
  ASSERT_TRUE(
      listener->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  ASSERT_TRUE(tiny.engine().pause({}, id).ok());
  listener->finished();
  tiny.engine().states();  // through the engine's thread: the call that delivered is over
  const std::weak_ptr<Listener> held = listener;
  listener.reset();
  EXPECT_TRUE(held.expired());
  auto second = std::make_shared<testing::RecordingListener>();
  ASSERT_TRUE(tiny.engine().resume({}, id, 4, second).ok()) << "still there to be resumed";
  EXPECT_EQ(second->finished().at(0).last->reason, FinishReason::length);
}

TEST(Engine, ACancelThatOvertakesItsRequestIsObeyed) {
  TinyEngine tiny;
  for (int i = 0; i < 50; i++) {
    std::string id;
    auto row = tiny.submit({TinyEngine::greedy("endless", 1000000)}, &id);
    EXPECT_TRUE(tiny.engine().cancel({}, id));
    EXPECT_EQ(row->finished().at(0).last->reason, FinishReason::cancelled);
  }
}

TEST(Engine, RowsThatBreakTheRulesAreRefusedByName) {
  TinyEngine tiny;
  const auto refusal = [&](Ask ask) {
    const Status status =
        tiny.engine().submit({.rows = {ask}, .listener = std::make_shared<testing::RecordingListener>()});
    return status.ok() ? std::string("accepted") : status.error().text;
  };
  Ask ask = TinyEngine::greedy("x", 1);
  ask.prompt = {256};
  EXPECT_EQ(refusal(ask), "the prompt has token id 256; wanted 0 to 255");
  ask.prompt = {-1};
  EXPECT_EQ(refusal(ask), "the prompt has token id -1; wanted 0 to 255");
  ask.prompt = {};
  EXPECT_EQ(refusal(ask), "the prompt has no tokens; wanted at least 1");
  ask = TinyEngine::greedy("x", -4);
  EXPECT_EQ(refusal(ask), "max_tokens is -4; wanted 0 to 1099511627776");
  ask = TinyEngine::greedy("x", 1);
  ask.sampling.logit_bias = {{300, 1.0f}};
  EXPECT_EQ(refusal(ask), "logit_bias names token id 300; wanted 0 to 255");
  ask = TinyEngine::greedy("x", 1);
  ask.stop.texts = {std::string(65000, 'a'), std::string(600, 'b')};
  EXPECT_EQ(refusal(ask), "the stop texts have 65600 bytes together; wanted at most 65536");
  ask.stop = {.ids = std::vector<int32_t>(5000, 1)};
  EXPECT_EQ(refusal(ask), "there are 5000 stop ids; wanted at most 4096");
  for (const bool writes : {true, false}) {
    ask = TinyEngine::greedy("x", 1);
    (writes ? ask.state.write_session : ask.state.read_session) = std::string(513, 's');
    EXPECT_EQ(refusal(ask), "the session's id has 513 bytes; wanted at most 512");
  }
}

TEST(Engine, APromptMayBeLimited) {
  TinyEngine tiny({.slots = 1, .max_prompt_tokens = 20});
  EXPECT_EQ(tiny.run(TinyEngine::greedy(std::string(20, 'x'), 1)).last->reason, FinishReason::length);
  Ask ask = TinyEngine::greedy(std::string(21, 'x'), 1);
  const Status status =
      tiny.engine().submit({.rows = {ask}, .listener = std::make_shared<testing::RecordingListener>()});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text, "the prompt has 21 tokens; this server takes at most 20");
}

TEST(Engine, ZeroTokensMeanAnEmptyText) {
  TinyEngine tiny;
  const RowLog row = tiny.run(TinyEngine::greedy("nothing", 0));
  EXPECT_EQ(row.text, "");
  EXPECT_EQ(row.last->reason, FinishReason::length);
}

TEST(Engine, PausedAndResumedTextIsTheUninterruptedOne) {
  TinyEngine tiny;
  std::string id;
  auto first = tiny.submit({TinyEngine::greedy("pause here", 1'000'000)}, &id, true);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  const auto paused = tiny.engine().pause({}, id);
  ASSERT_TRUE(paused.ok()) << paused.error().text;
  EXPECT_EQ(*paused, id);
  const RowLog head = first->finished().at(0);
  EXPECT_EQ(head.last->reason, FinishReason::paused);
  auto second = std::make_shared<testing::RecordingListener>();
  ASSERT_TRUE(tiny.engine().resume({}, id, 30, second).ok());
  const std::string tail = second->finished().at(0).text;
  EXPECT_EQ(head.text + tail, tiny.run(TinyEngine::greedy("pause here", head.sampled + 30)).text);
  EXPECT_EQ(tiny.engine().resume({}, id, -1, second).error().kind, ErrorKind::not_found) << "one use only";
}

TEST(Engine, WhatAPausedRowHoldsBackComesOnceItIsResumed) {
  TinyEngine tiny;
  const Ask plain = TinyEngine::greedy("pause here", 200);
  const std::string whole = tiny.run(plain).text;
  Ask ask = TinyEngine::greedy("pause here", 1'000'000);
  for (const char last : std::set<char>(whole.begin(), whole.end())) {
    ask.stop.texts.push_back(std::string(1, last) +
                             "never said");  // so the last character is always held back
  }
  std::string id;
  auto first = tiny.submit({ask}, &id, true);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  ASSERT_TRUE(tiny.engine().pause({}, id).ok());
  const std::string head = first->finished().at(0).text;
  auto second = std::make_shared<testing::RecordingListener>();
  ASSERT_TRUE(tiny.engine().resume({}, id, 30, second).ok());
  const RowLog tail = second->finished().at(0);
  const int64_t drawn = tail.last->usage.completion_tokens;
  EXPECT_EQ(head + tail.text, tiny.run(TinyEngine::greedy("pause here", drawn)).text);
}

TEST(Engine, APausedRequestIsForgottenByItsId) {
  TinyEngine tiny;
  std::string id;
  auto held = std::make_shared<int>(0);
  std::weak_ptr<int> seen = held;
  auto first = tiny.submit({TinyEngine::greedy("pause here", 1'000'000)}, &id, true, std::move(held));
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  EXPECT_FALSE(tiny.engine().forget_paused({}, id)) << "it runs";
  ASSERT_TRUE(tiny.engine().pause({}, id).ok());
  first->finished();
  EXPECT_FALSE(seen.expired()) << "it can be resumed";
  EXPECT_TRUE(tiny.engine().forget_paused({}, id));
  EXPECT_FALSE(tiny.engine().forget_paused({}, id));
  auto second = std::make_shared<testing::RecordingListener>();
  EXPECT_EQ(tiny.engine().resume({}, id, 3, second).error().kind, ErrorKind::not_found);
  EXPECT_TRUE(seen.expired());
  EXPECT_TRUE(tiny.engine().stats().paused.empty());
}

TEST(Engine, AResumedRowIsHeldToTheTokensOfANewOne) {
  TinyEngine tiny;
  std::string id;
  auto first = tiny.submit({TinyEngine::greedy("pause here", 1'000'000)}, &id, true);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 5; }));
  ASSERT_TRUE(tiny.engine().pause({}, id).ok());
  const int64_t before = first->finished().at(0).last->usage.completion_tokens;
  auto second = std::make_shared<testing::RecordingListener>();
  const Status refused = tiny.engine().resume({}, id, std::numeric_limits<int64_t>::max(), second);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  ASSERT_TRUE(tiny.engine().resume({}, id, 3, second).ok()) << "still there to be resumed";
  EXPECT_EQ(second->finished().at(0).last->usage.completion_tokens, before + 3);
}

TEST(Engine, DrainWaitsForWhatRunsAndRefusesTheRest) {
  TinyEngine tiny;
  auto running = tiny.submit({TinyEngine::greedy("drain", 200)});
  std::promise<void> drained;
  tiny.engine().drain([&] { drained.set_value(); });
  Ask late = TinyEngine::greedy("late", 1);
  late.request_id = "late";
  const Status refused = tiny.engine().submit({.rows = {late}, .listener = running});
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  ASSERT_EQ(drained.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(running->finished().at(0).last->usage.completion_tokens, 200);
}

TEST(Engine, ScoresOfAPromptAreThoseOfTheModel) {
  TinyEngine tiny;
  Ask ask = TinyEngine::greedy("score me, in several chunks, please", 0);
  ask.score_prompt = true;
  ask.sampling.top_logprobs = 1;
  const RowLog row = tiny.run(ask);
  ASSERT_EQ(row.last->prompt_scores.size(), ask.prompt.size());
  // The likeliest next byte of each beginning must be what greedy decoding draws after it.
  for (const size_t length : {1u, 5u, 17u, 30u}) {
    const std::string drawn =
        plain_greedy(tiny, std::string("score me, in several chunks, please").substr(0, length), 1);
    EXPECT_EQ(row.last->prompt_scores[length].top.at(0).token, static_cast<unsigned char>(drawn[0]));
  }
}

// The log-likelihood of a text, token by token, against plain loops in double precision.
TEST(Engine, ScoresOfAPromptAreThoseOfTheOracle) {
  for (const int version : kVersions) {
    SCOPED_TRACE(version);
    TinyEngine tiny({.slots = 4, .prefill_chunk = 16}, version);
    const std::string text = "The log-likelihood of this text, token by token";
    Ask ask = TinyEngine::greedy(text, 0);
    ask.score_prompt = true;
    ask.sampling = {.temperature = 0.3f, .top_k = 2, .logit_bias = {{'e', 5.0f}}, .top_logprobs = 3};
    Ask other = ask;
    other.sampling.top_logprobs = 0;
    other.prompt.resize(20);
    const auto rows = tiny.submit({ask, other})->finished(2);
    const std::vector<TokenRecord>& scores = rows.at(0).last->prompt_scores;
    ASSERT_EQ(scores.size(), text.size());
    ASSERT_EQ(rows.at(1).last->prompt_scores.size(), 20u);

    const auto checkpoint = synthetic_checkpoint(TinyEngine::spec(version));
    const support::ReferenceModel oracle(support::named_tensors(*checkpoint));
    support::ReferenceState state = oracle.zero_state();
    const auto logits = oracle.forward(ask.prompt, state);
    EXPECT_TRUE(scores[0].top.empty());
    for (size_t i = 0; i < text.size(); i++) {
      EXPECT_EQ(scores[i].bytes, text.substr(i, 1));
      EXPECT_EQ(scores[i].token, ask.prompt[i]);
      if (i == 0) continue;
      const std::vector<double>& z = logits[i - 1];
      const double highest = *std::max_element(z.begin(), z.end());
      double sum = 0;
      for (const double value : z) sum += std::exp(value - highest);
      const double normaliser = highest + std::log(sum);
      EXPECT_NEAR(scores[i].logprob, z[static_cast<size_t>(ask.prompt[i])] - normaliser, 1e-3) << i;
      ASSERT_EQ(scores[i].top.size(), 3u);
      EXPECT_NEAR(scores[i].top[0].logprob, highest - normaliser, 1e-3) << i;
      if (i >= 20) continue;
      EXPECT_NEAR(rows.at(1).last->prompt_scores[i].logprob, scores[i].logprob, 1e-4);
    }
  }
}

TEST(Engine, EmbeddingsDependOnThePromptAndNotOnTheBatch) {
  TinyEngine tiny;
  const auto ask = [](const std::string& text) {
    Ask embed = TinyEngine::greedy(text, 0);
    embed.embed = true;
    return embed;
  };
  const auto alone = tiny.run(ask("a sentence to embed")).last->embedding;
  ASSERT_EQ(alone.size(), 64u);
  const auto rows = tiny.submit({ask("another one"), ask("a sentence to embed")})->finished(2);
  for (size_t i = 0; i < alone.size(); i++) EXPECT_NEAR(rows.at(1).last->embedding[i], alone[i], 1e-4);
  EXPECT_NE(rows.at(0).last->embedding, alone);
}

}  // namespace
}  // namespace fulmar
