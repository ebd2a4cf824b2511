// Draws on the device against the reference sampler, row by row.
#include <bit>
#include <cmath>
#include <random>
#include <tuple>

#include "gpu/gpu_device.h"

namespace fulmar {
namespace {

constexpr int64_t kVocab = 5003;
constexpr int64_t kRows = 9;

class GpuSample : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 3);
    for (float& x : host_) x = normal(random);
    for (int32_t id = 0; id < kVocab; id += 2) stops_.push_back(id);
    host_[7] = NAN;
    host_[8] = -INFINITY;
    auto made = gpu().allocate(host_.size() * sizeof(float));
    ASSERT_TRUE(made.ok());
    memory_ = std::move(made).value();
    gpu().write(memory_.data(), host_.data(), host_.size() * sizeof(float));
  }

  // How many of many draws differ from the reference.
  int differences(SamplingParams params, const PenaltyMemory* memory, int draws) {
    int different = 0;
    if (under_racecheck()) draws = 1;
    std::vector<SamplingParams> each(kRows, params);
    for (int draw = 0; draw < draws; draw++) {
      std::vector<SampleRow> rows;
      for (int64_t i = 0; i < kRows; i++) {
        each[static_cast<size_t>(i)].seed = static_cast<uint64_t>(draw * 100 + i);
        SampleRow row;
        row.logits_row = static_cast<int32_t>(i);
        row.position = static_cast<uint64_t>(draw);
        row.params = &each[static_cast<size_t>(i)];
        row.memory = memory;
        row.allowed = allowed_;
        row.stops = stops_;
        rows.push_back(row);
      }
      std::vector<SampledToken> got(rows.size());
      gpu().sample(memory_.matrix(DType::f32, kRows, kVocab), rows, got);
      for (size_t i = 0; i < rows.size(); i++) {
        std::vector<float> logits(host_.begin() + static_cast<ptrdiff_t>(i) * kVocab,
                                  host_.begin() + static_cast<ptrdiff_t>(i + 1) * kVocab);
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
  std::vector<float> host_ = std::vector<float>(static_cast<size_t>(kRows * kVocab));
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

}  // namespace
}  // namespace fulmar
