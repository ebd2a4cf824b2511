// One load for every form of an engine: more rows than slots, long and short prompts, ends of every kind,
// scores, an embedding, a session. Two forms that compute the same must answer it alike.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "cache/state_blob.h"
#include "support/tiny_engine.h"

namespace fulmar::testing {

struct MixedAnswers {
  std::vector<RowLog> rows;
  StateBlob session;
};

inline std::vector<Ask> mixed_asks() {
  std::vector<Ask> rows;
  for (int i = 0; i < 12; i++) {
    Ask ask =
        TinyEngine::greedy(std::string(static_cast<size_t>(3 + 17 * i), static_cast<char>('a' + i)), 9 + i);
    ask.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    ask.sampling.seed = static_cast<uint64_t>(i);
    ask.sampling.presence = 0.5f;
    if (i == 2) ask.sampling.top_logprobs = 2;
    if (i == 3) {
      for (int32_t id = 0; id < 128; id++) ask.stop.ids.push_back(id);
    }
    if (i == 4) ask.stop.texts = {"e", "\x80"};
    if (i == 5) ask.state.write_session = "kept";
    if (i == 6) ask.score_prompt = true;
    if (i == 7) {
      ask.embed = true;
      ask.max_tokens = 0;
    }
    rows.push_back(std::move(ask));
  }
  return rows;
}

inline MixedAnswers mixed_load(TinyEngine& tiny) {
  MixedAnswers answers;
  for (auto& [index, row] : tiny.submit(mixed_asks())->finished(12)) answers.rows.push_back(row);
  auto session = tiny.engine().export_session({}, "kept");
  EXPECT_TRUE(session.ok());
  answers.session = std::move(session).value();
  return answers;
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], tolerance) << "number " << i;
}

// Texts, ends and counts alike; scores, embeddings and the session's state within `tolerance`, 0: bit by bit.
inline void expect_same_answers(const MixedAnswers& got, const MixedAnswers& want, float tolerance = 0) {
  ASSERT_EQ(got.rows.size(), want.rows.size());
  for (size_t i = 0; i < got.rows.size(); i++) {
    SCOPED_TRACE(i);
    const RowLog &mine = got.rows[i], &other = want.rows[i];
    ASSERT_TRUE(mine.last && other.last);
    EXPECT_EQ(mine.text, other.text);
    EXPECT_EQ(mine.sampled, other.sampled);
    EXPECT_EQ(mine.records.size(), other.records.size());
    EXPECT_EQ(mine.last->reason, other.last->reason);
    EXPECT_EQ(mine.last->stop_id, other.last->stop_id);
    EXPECT_EQ(mine.last->usage.completion_tokens, other.last->usage.completion_tokens);
    expect_near(mine.last->embedding, other.last->embedding, tolerance);
    ASSERT_EQ(mine.last->prompt_scores.size(), other.last->prompt_scores.size());
    for (size_t j = 0; j < mine.last->prompt_scores.size(); j++) {
      EXPECT_NEAR(mine.last->prompt_scores[j].logprob, other.last->prompt_scores[j].logprob, tolerance);
    }
  }
  EXPECT_EQ(got.session.tokens, want.session.tokens);
  EXPECT_EQ(got.session.layout, want.session.layout);
  if (tolerance == 0) {
    EXPECT_EQ(got.session.payload, want.session.payload);
    return;
  }
  const auto numbers = [](const StateBlob& blob) {
    std::vector<float> values(blob.payload.size() / sizeof(float));
    std::memcpy(values.data(), blob.payload.data(), blob.payload.size());
    return values;
  };
  expect_near(numbers(got.session), numbers(want.session), tolerance);
}

}  // namespace fulmar::testing
