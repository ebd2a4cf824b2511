// Draws on the device against the reference sampler, row by row.
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
        }
      }
    }
    return different;
  }

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

TEST_F(GpuSample, WhatTheDeviceDoesNotKnowTheHostDoes) {
  SamplingParams params;
  params.top_logprobs = 3;
  EXPECT_EQ(differences(params, nullptr, 2), 0);
  params.top_logprobs = -1;
  params.noise = NoiseKind::gumbel;
  EXPECT_EQ(differences(params, nullptr, 2), 0);
}

}  // namespace
}  // namespace fulmar
