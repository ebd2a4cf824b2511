// One load for every form of an engine: more rows than slots, long and short prompts, ends of every kind,
// scores, an embedding, a session. Two forms that compute the same must answer it alike.
#pragma once

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
  auto session = tiny.engine().export_session("kept");
  EXPECT_TRUE(session.ok());
  answers.session = std::move(session).value();
  return answers;
}

}  // namespace fulmar::testing
