// Requests of every kind at random, for engines that have to answer alike.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/tiny_engine.h"

namespace fulmar::testing {

// Lets the letters of a small alphabet through, and ends the text behind a number of them. Some letters are
// forced, as a tokenizer's own division of a text is: others would be allowed in their place.
class LetterMask final : public TokenMask {
 public:
  explicit LetterMask(size_t letters) : left_(letters), bits_(4, 0) {}
  std::span<const uint64_t> allowed() override {
    std::fill(bits_.begin(), bits_.end(), 0);
    for (int32_t id = 'a'; id <= 'f'; id++) {
      if ((static_cast<size_t>(id) + left_) % 3 != 0) bits_[1] |= uint64_t{1} << (id - 64);
    }
    return bits_;
  }
  bool ready() const override { return true; }
  size_t prepare() override { return 0; }
  std::optional<int32_t> forced() override {
    if (left_ % 40 < 17 || left_ % 5 == 0) return static_cast<int32_t>('a' + left_ * 7 % 6);
    return std::nullopt;
  }
  void accept(int32_t) override { left_--; }
  bool complete() const override { return left_ == 0; }
  std::unique_ptr<TokenMask> fork() const override { return std::make_unique<LetterMask>(*this); }

 private:
  size_t left_;
  std::vector<uint64_t> bits_;
};

// Requests of every kind; equal numbers make equal ones.
class RandomAsks {
 public:
  explicit RandomAsks(uint64_t seed) : random_(seed) {}

  Ask next() {
    Ask ask{.prompt = {}};
    const auto length = 1 + below(40);
    for (uint64_t i = 0; i < length; i++) ask.prompt.push_back(letter());
    ask.max_tokens = static_cast<int64_t>(1 + below(48));
    sample(ask);
    stop(ask);
    if (chance(4)) ask.mask = std::make_shared<LetterMask>(1 + below(40));
    if (chance(5)) ask.banned_at.push_back({static_cast<int64_t>(below(20)), {letter(), letter()}});
    if (chance(2)) {
      ask.state.write_session = session();
      if (chance(2)) ask.state.read_session = session();
      if (chance(8)) ask.state.must_exist = true;
    }
    return ask;
  }

  // What the row says, with some of it changed: a prediction of which much is right.
  std::vector<int32_t> nearly(std::vector<int32_t> tokens) {
    for (int32_t& token : tokens) {
      if (chance(9)) token = letter();
    }
    return tokens;
  }
  bool chance(uint64_t of) { return below(of) == 0; }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  int32_t letter() { return static_cast<int32_t>('a' + below(6)); }
  std::string session() { return "session-" + std::to_string(below(12)); }
  float pick(std::initializer_list<float> values) { return *(values.begin() + below(values.size())); }

  void sample(Ask& ask) {
    SamplingParams& sampling = ask.sampling;
    sampling.temperature = pick({0.0f, 0.0f, 0.4f, 1.0f, 1.6f});
    sampling.top_k = static_cast<int32_t>(pick({0, 1, 3, 40}));
    sampling.top_p = pick({1.0f, 0.9f, 0.5f, 0.0f});
    sampling.min_p = pick({0.0f, 0.0f, 0.1f});
    sampling.presence = pick({0.0f, 0.0f, 0.7f});
    sampling.frequency = pick({0.0f, 0.3f});
    sampling.decay = pick({0.996f, 0.5f});
    sampling.temperature_last = chance(4);
    if (chance(6)) sampling.noise = NoiseKind::gumbel;
    sampling.seed = random_();
    // Most weight on few letters, so that texts repeat themselves.
    if (chance(2)) {
      for (int32_t id = 'a'; id <= 'f'; id++) sampling.logit_bias.emplace_back(id, pick({4.0f, 6.0f, 8.0f}));
    }
    if (chance(6)) sampling.banned = {letter()};
    if (chance(4)) sampling.top_logprobs = static_cast<int32_t>(below(4));
  }

  void stop(Ask& ask) {
    if (chance(4)) ask.stop.ids = {letter()};
    if (!chance(3)) return;
    for (uint64_t i = 0; i <= below(3); i++) {
      std::string text;
      for (uint64_t j = 0; j <= below(5); j++) text += static_cast<char>(letter());
      ask.stop.texts.push_back(std::move(text));
    }
    ask.stop.include_text = chance(3);
  }

  std::mt19937_64 random_;
};

inline void expect_equal(const RowLog& plain, const RowLog& other) {
  ASSERT_TRUE(plain.last && other.last);
  EXPECT_EQ(plain.text, other.text);
  EXPECT_EQ(plain.sampled, other.sampled);
  EXPECT_EQ(plain.last->reason, other.last->reason);
  EXPECT_EQ(plain.last->stop_id, other.last->stop_id);
  EXPECT_EQ(plain.last->stop_text, other.last->stop_text);
  EXPECT_EQ(plain.last->error.has_value(), other.last->error.has_value());
  EXPECT_EQ(plain.last->usage.completion_tokens, other.last->usage.completion_tokens);
  EXPECT_EQ(plain.last->usage.cached_tokens, other.last->usage.cached_tokens);
  ASSERT_EQ(plain.records.size(), other.records.size());
  for (size_t i = 0; i < plain.records.size(); i++) {
    EXPECT_EQ(plain.records[i].token, other.records[i].token);
    EXPECT_FLOAT_EQ(plain.records[i].logprob, other.records[i].logprob);
    EXPECT_EQ(plain.records[i].top.size(), other.records[i].top.size());
  }
}

// A row that runs all the while: products of 2 to 32 rows add up in one order (cpu/linear_dot.h), so that
// bits can be compared whatever is other.
inline std::string keep_company(TinyEngine& tiny) {
  Ask ask = TinyEngine::greedy("company", 1'000'000'000);
  ask.speculate = false;
  std::string id;
  const auto listener = tiny.submit({std::move(ask)}, &id);
  EXPECT_TRUE(
      listener->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 0; }));
  return id;
}

}  // namespace fulmar::testing
