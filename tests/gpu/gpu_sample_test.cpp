// Draws on the device against the reference sampler, row by row.
#include <bit>
#include <cmath>
#include <random>
#include <tuple>

#include "gpu/gpu_device.h"

namespace fulmar {
namespace {

constexpr int64_t kVocab = 5003, kWhole = 65536;
constexpr size_t kRows = 9;

class GpuSample : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    std::normal_distribution<float> normal(0, 3);
    set_logits(kVocab, [&](std::mt19937& random) { return normal(random); });
    host_[7] = NAN;
    host_[8] = -INFINITY;
    gpu().write(memory_.data(), host_.data(), host_.size() * sizeof(float));
    for (int32_t id = 0; id < kVocab; id += 2) stops_.push_back(id);
  }

  template <class Make>
  void set_logits(int64_t vocab, const Make& make) {
    std::mt19937 random(5);
    vocab_ = static_cast<size_t>(vocab);
    host_.resize(kRows * vocab_);
    for (float& x : host_) x = make(random);
    auto made = gpu().allocate(host_.size() * sizeof(float));
    ASSERT_TRUE(made.ok());
    memory_ = std::move(made).value();
    gpu().write(memory_.data(), host_.data(), host_.size() * sizeof(float));
  }

  // How many of many draws differ from the reference.
  int differences(const SamplingParams& params, const PenaltyMemory* memory, int draws) {
    return differences(std::vector<SamplingParams>(kRows, params), memory, draws);
  }
  int differences(std::vector<SamplingParams> each, const PenaltyMemory* memory, int draws) {
    int different = 0;
    if (under_racecheck()) draws = 1;
    for (int draw = 0; draw < draws; draw++) {
      std::vector<SampleRow> rows;
      for (size_t i = 0; i < kRows; i++) {
        each[i].seed = static_cast<uint64_t>(draw) * 100 + i;
        SampleRow row;
        row.logits_row = static_cast<int32_t>(i);
        row.position = static_cast<uint64_t>(draw);
        row.params = &each[i];
        row.memory = memory;
        row.allowed = allowed_;
        row.stops = stops_;
        rows.push_back(row);
      }
      std::vector<SampledToken> got(rows.size());
      gpu().sample(memory_.matrix(DType::f32, kRows, static_cast<int64_t>(vocab_)), rows, got);
      for (size_t i = 0; i < rows.size(); i++) {
        std::vector<float> logits(host_.begin() + static_cast<ptrdiff_t>(i * vocab_),
                                  host_.begin() + static_cast<ptrdiff_t>((i + 1) * vocab_));
        const SampledToken want = sample_row(logits, rows[i]);
        different += got[i].token != want.token ? 1 : 0;
        if (got[i].token == want.token) {
          EXPECT_NEAR(got[i].logprob, want.logprob, 1e-3);
          EXPECT_EQ(got[i].stops, want.stops) << "token " << want.token;
        }
        expect_equal_lists(got[i].top, want.top);
      }
    }
    return different;
  }

  static void expect_equal_lists(const std::vector<TokenLogprob>& got,
                                 const std::vector<TokenLogprob>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t n = 0; n < got.size(); n++) {
      EXPECT_EQ(got[n].token, want[n].token) << "place " << n;
      EXPECT_NEAR(got[n].logprob, want[n].logprob, 1e-3) << "place " << n;
    }
  }

  std::vector<uint64_t> allowed_;  // empty: all
  std::vector<int32_t> stops_;     // every second id
  size_t vocab_ = 0;
  std::vector<float> host_;  // [kRows, vocab_]
  Buffer memory_;
};

TEST_F(GpuSample, GreedyIsTheReference) {
  SamplingParams params;
  params.temperature = 0;
  params.banned = {3};
  params.logit_bias = {{11, 40.0f}, {3, 100.0f}};
  EXPECT_EQ(differences(params, nullptr, 3), 0);
  params.top_logprobs = 0;
  EXPECT_EQ(differences(params, nullptr, 3), 0);
}

// Sums in another order may move a boundary past a draw, one in very many.
TEST_F(GpuSample, DrawsAreTheReferences) {
  PenaltyMemory memory;
  memory.seen = {{4, 3.0f}, {99, 1.5f}, {4000, -2.0f}};
  for (const auto& [temperature, top_k, top_p, min_p] :
       std::vector<std::tuple<float, int, float, float>>{{1.0f, 0, 1.0f, 0.0f},
                                                         {0.7f, 50, 1.0f, 0.0f},
                                                         {1.3f, 0, 0.9f, 0.0f},
                                                         {1.0f, 1000, 0.5f, 0.05f},
                                                         {2.0f, 0, 1.0f, 0.1f},
                                                         {30.0f, 0, 0.99f, 0.0f}}) {
    SamplingParams params;
    params.temperature = temperature;
    params.top_k = top_k;
    params.top_p = top_p;
    params.min_p = min_p;
    params.presence = 0.5f;
    params.top_logprobs = 0;
    EXPECT_LE(differences(params, &memory, 20), 1)
        << temperature << " " << top_k << " " << top_p << " " << min_p;
  }
}

struct Limits {
  int top_k;
  float top_p, min_p = 0;

  SamplingParams with(float temperature = 1, bool temperature_last = false) const {
    SamplingParams params;
    params.temperature = temperature;
    params.temperature_last = temperature_last;
    params.top_k = top_k;
    params.top_p = top_p;
    params.min_p = min_p;
    return params;
  }
};

TEST_F(GpuSample, IdsTiedAtTheCutAreTheReferences) {
  std::normal_distribution<float> normal(0, 2);
  set_logits(kVocab, [&](std::mt19937& random) { return std::round(normal(random)); });
  for (const Limits& limits :
       std::vector<Limits>{{2, 1}, {40, 1}, {300, 1}, {2000, 1}, {0, 0.05f}, {0, 0.6f}, {100, 0.3f, 0.1f}}) {
    for (const bool last : {false, true}) {
      EXPECT_LE(differences(limits.with(0.9f, last), nullptr, 10), 1)
          << limits.top_k << " " << limits.top_p << " " << last;
    }
  }
}

// Levels of equal logits, so that a weight's last bit moves no id past another.
TEST_F(GpuSample, NearlyFlatDistributionsAreTheReferences) {
  std::normal_distribution<float> normal(0, 0.01f);
  for (const float level : {0.0f, 1.0f / 512}) {
    set_logits(kWhole, [&](std::mt19937& random) { return std::round(normal(random) * 512) * level; });
    for (const Limits& limits :
         std::vector<Limits>{{0, 0.9f}, {30000, 1}, {50, 1}, {60000, 0.01f}, {0, 0.99999f, 0.5f}}) {
      for (const bool last : {false, true}) {
        EXPECT_LE(differences(limits.with(1.5f, last), nullptr, 3), 1)
            << level << " " << limits.top_k << " " << limits.top_p << " " << last;
      }
    }
  }
}

TEST_F(GpuSample, LimitsOfOneTokenAndOfAllAreTheReferences) {
  std::normal_distribution<float> normal(0, 3);
  set_logits(kWhole, [&](std::mt19937& random) { return normal(random); });
  for (const Limits& limits : std::vector<Limits>{{1, 1},
                                                  {0, 0},
                                                  {0, 1e-7f},
                                                  {0, 1e-30f},
                                                  {50, 1, 1},
                                                  {256, 1},
                                                  {257, 1},
                                                  {kWhole - 1, 1},
                                                  {kWhole, 1},
                                                  {2 * kWhole, 0.9f},
                                                  {0, 0.9999999f}}) {
    EXPECT_LE(differences(limits.with(), nullptr, 4), 1)
        << limits.top_k << " " << limits.top_p << " " << limits.min_p;
  }
}

TEST_F(GpuSample, RowsOfOneStepKeepTheirOwnSettings) {
  PenaltyMemory memory;
  for (int32_t id = 0; id < kVocab; id += 7) memory.seen.push_back({id, 0.01f * static_cast<float>(id % 90)});
  std::vector<SamplingParams> each(kRows);
  each[0].temperature = 0;
  each[1].top_k = 50;
  each[2].top_p = 0.9f;
  each[3].min_p = 0.1f;
  each[4].presence = 1;
  each[4].top_p = 0.5f;
  each[5].noise = NoiseKind::gumbel;
  each[6].temperature_last = true;
  each[6].temperature = 0.6f;
  each[6].top_k = 20;
  each[7].top_logprobs = 5;
  each[7].frequency = 1;
  each[7].banned = {5, 6};
  EXPECT_LE(differences(each, &memory, 20), 2);
}

// Draws that the survey suffices for have a kernel of their own where no other draw is beside them.
TEST_F(GpuSample, ADrawHasTheSameBitsWhateverIsDrawnBesideIt) {
  for (const int64_t vocab : {kVocab, kWhole}) {
    std::normal_distribution<float> normal(0, 2);
    set_logits(vocab, [&](std::mt19937& random) { return normal(random); });
    const int draws = under_racecheck() ? 1 : 40;
    for (int draw = 0; draw < draws; draw++) {
      std::vector<SamplingParams> each(kRows);
      std::vector<SampleRow> rows(kRows);
      for (size_t i = 0; i < kRows; i++) {
        each[i].seed = i, each[i].top_logprobs = 0;
        each[i].temperature = i == 0 ? 0.0f : 0.4f * static_cast<float>(i);
        if (i % 4 == 1) each[i].logit_bias = {{17, 3.0f}};
        rows[i].logits_row = static_cast<int32_t>(i);
        rows[i].position = static_cast<uint64_t>(draw);
        rows[i].params = &each[i];
      }
      const Tensor logits = memory_.matrix(DType::f32, kRows, vocab);
      std::vector<SampledToken> among_alike(kRows), beside_another(kRows);
      gpu().sample(logits, rows, among_alike);
      each.back().top_k = 50;
      gpu().sample(logits, rows, beside_another);
      for (size_t i = 0; i + 1 < kRows; i++) {
        EXPECT_EQ(among_alike[i].token, beside_another[i].token) << "row " << i << ", draw " << draw;
        EXPECT_EQ(among_alike[i].logprob, beside_another[i].logprob) << "row " << i << ", draw " << draw;
      }
    }
  }
}

// As wide as a vocabulary is, whose values are read by fours.
TEST_F(GpuSample, UncutDrawsFromAWholeVocabularyAreTheReferences) {
  std::normal_distribution<float> normal(0, 2);
  set_logits(kWhole, [&](std::mt19937& random) { return normal(random); });
  stops_.clear();
  EXPECT_LE(differences(SamplingParams{}, nullptr, 40), 1);
}

// However deep ids lie they can be drawn where a high temperature comes after the cuts.
TEST_F(GpuSample, IdsFarBelowTheBestAreTheReferences) {
  std::normal_distribution<float> normal(0, 60);
  set_logits(kVocab, [&](std::mt19937& random) { return normal(random); });
  SamplingParams params;
  params.temperature = 1000;
  params.temperature_last = true;
  params.top_logprobs = 0;
  for (const int top_k : {20, 200, 1000}) {
    params.top_k = top_k;
    EXPECT_LE(differences(params, nullptr, 10), 1) << top_k;
  }
}

// They stay, as the smallest there is, behind all others.
TEST_F(GpuSample, IdsThatABiasMakesImpossibleAreTheReferences) {
  SamplingParams params;
  for (int32_t id = 5; id < kVocab; id++) params.logit_bias.emplace_back(id, -INFINITY);
  params.top_k = 40;
  EXPECT_EQ(differences(params, nullptr, 5), 0);
  params.top_k = 0;
  params.top_p = 0.999f;
  EXPECT_EQ(differences(params, nullptr, 5), 0);
  for (int32_t id = 0; id < 5; id++) params.logit_bias.emplace_back(id, -INFINITY);  // all alike
  EXPECT_LE(differences(params, nullptr, 5), 1);
}

TEST_F(GpuSample, OnlyAllowedIdsAreDrawn) {
  std::mt19937_64 random(8);
  for (int word = 0; word < 60; word++) allowed_.push_back(random() & random());  // none behind the last word
  SamplingParams params;
  params.top_logprobs = 2;
  EXPECT_LE(differences(params, nullptr, 20), 1);
  params.top_p = 0.8f;
  params.banned = {static_cast<int32_t>(std::countr_zero(allowed_[0]))};
  EXPECT_LE(differences(params, nullptr, 20), 1);
  params.temperature = 0;
  EXPECT_EQ(differences(params, nullptr, 1), 0);
  allowed_.assign(allowed_.size(), 0);  // nothing is left: id 0, as in the reference
  EXPECT_EQ(differences(params, nullptr, 1), 0);
}

TEST_F(GpuSample, TemperatureAfterTheCutsIsTheReferences) {
  for (const auto& [temperature, top_k, top_p, min_p] :
       std::vector<std::tuple<float, int, float, float>>{{0.5f, 0, 1.0f, 0.0f},
                                                         {1.7f, 0, 1.0f, 0.02f},
                                                         {3.0f, 40, 1.0f, 0.0f},
                                                         {0.3f, 0, 0.9f, 0.0f},
                                                         {2.0f, 500, 0.7f, 0.01f}}) {
    SamplingParams params;
    params.temperature = temperature;
    params.temperature_last = true;
    params.top_k = top_k;
    params.top_p = top_p;
    params.min_p = min_p;
    params.top_logprobs = 0;
    EXPECT_LE(differences(params, nullptr, 20), 1) << temperature << " " << top_k << " " << top_p;
  }
}

// A logarithm that differs in its last bit may put another id in front, one time in very many.
TEST_F(GpuSample, NoiseIsTheReferences) {
  SamplingParams params;
  params.noise = NoiseKind::gumbel;
  params.temperature = 0.8f;
  EXPECT_LE(differences(params, nullptr, 20), 1);
  params.top_logprobs = 1;
  EXPECT_LE(differences(params, nullptr, 20), 1);
  params.noise = NoiseKind::uniform;
  params.noise_scale = 2.5f;
  EXPECT_LE(differences(params, nullptr, 20), 1);
  params.temperature = 0;  // cold: no noise
  EXPECT_EQ(differences(params, nullptr, 2), 0);
}

TEST_F(GpuSample, ListsOfLikelyTokensAreTheReferences) {
  SamplingParams params;
  params.temperature = 1.4f;
  params.top_logprobs = 3;
  EXPECT_LE(differences(params, nullptr, 5), 1);
  params.top_logprobs = 20;
  params.top_k = 7;
  EXPECT_LE(differences(params, nullptr, 5), 1);
  params.top_logprobs = 30;  // more than the device lists: the host's
  EXPECT_EQ(differences(params, nullptr, 1), 0);
}

// Ids given in place of a draw: their log-probabilities are those of the reference.
TEST_F(GpuSample, GivenIdsAreScored) {
  SamplingParams params;
  params.top_logprobs = 3;
  std::vector<SampleRow> rows;
  for (size_t i = 0; i < 300; i++) {  // more than one launch takes
    SampleRow row;
    row.logits_row = static_cast<int32_t>(i % kRows);
    row.params = &params;
    row.given = static_cast<int32_t>((i * 37) % vocab_);
    rows.push_back(row);
  }
  std::vector<SampledToken> got(rows.size());
  gpu().sample(memory_.matrix(DType::f32, kRows, static_cast<int64_t>(vocab_)), rows, got);
  for (size_t i = 0; i < rows.size(); i++) {
    const size_t at = static_cast<size_t>(rows[i].logits_row) * vocab_;
    std::vector<float> logits(host_.begin() + static_cast<ptrdiff_t>(at),
                              host_.begin() + static_cast<ptrdiff_t>(at + vocab_));
    const SampledToken want = sample_row(logits, rows[i]);
    EXPECT_EQ(got[i].token, rows[i].given);
    if (std::isfinite(want.logprob)) {
      EXPECT_NEAR(got[i].logprob, want.logprob, 1e-3);
    }
    expect_equal_lists(got[i].top, want.top);
  }
}

}  // namespace
}  // namespace fulmar
