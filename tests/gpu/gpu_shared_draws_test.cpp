// Draws from logits that lie on two GPUs, or on one opened twice where there is no other, against those of
// one device that has them all: the same bits.
#include <cmath>
#include <future>
#include <random>

#include "gpu/gpu_device.h"
#include "ops/survey.h"

namespace fulmar {
namespace {

constexpr int64_t kRows = 300;  // more than are drawn at once

class GpuSharedDraws : public GpuTest, public testing::WithParamInterface<int64_t> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    vocab_ = GetParam();
    for (const int index : {0, list_gpus().size() > 1 ? 1 : 0}) {
      devices_.push_back(open_test_gpu({.index = index}).value());
    }
    Ops* const group[] = {devices_[0].get(), devices_[1].get()};
    auto opened = devices_[0]->draws_of(group, vocab_, std::chrono::milliseconds(20'000));
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    draws_ = std::move(opened).value();
    if (draws_ == nullptr) GTEST_SKIP() << "the GPUs cannot reach each other's memory";
    const int64_t length = survey_slice_length(vocab_), slices = (vocab_ + length - 1) / length;
    first_ = slices / 2 * length;
    make_logits();
  }

  // Ties, and numbers that are none.
  void make_logits() {
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> all(static_cast<size_t>(rows_ * vocab_));
    for (float& x : all) x = std::round(normal(random) * 64) / 64;
    all[1] = NAN, all[static_cast<size_t>(first_)] = INFINITY,
    all[static_cast<size_t>(vocab_) + 2] = -INFINITY;
    whole_ = devices_[0]->allocate(all.size() * sizeof(float)).value();
    devices_[0]->write(whole_.data(), all.data(), all.size() * sizeof(float));
    for (const size_t rank : {0u, 1u}) {
      const int64_t from = rank == 0 ? 0 : first_, count = rank == 0 ? first_ : vocab_ - first_;
      std::vector<float> own;
      for (int64_t row = 0; row < rows_; row++) {
        const auto at = all.begin() + row * vocab_ + from;
        own.insert(own.end(), at, at + count);
      }
      part_[rank] = devices_[rank]->allocate(own.size() * sizeof(float)).value();
      devices_[rank]->write(part_[rank].data(), own.data(), own.size() * sizeof(float));
    }
  }

  std::vector<SampledToken> alone(std::span<const SampleRow> rows) {
    std::vector<SampledToken> out(rows.size());
    devices_[0]->sample(whole_.matrix(DType::f32, rows_, vocab_), rows, out);
    return out;
  }
  std::vector<SampledToken> shared(std::span<const SampleRow> rows) {
    std::vector<SampledToken> out(rows.size());
    auto other = std::async(std::launch::async, [&] {
      draws_->survey(1, part_[1].matrix(DType::f32, rows_, vocab_ - first_), first_, rows);
    });
    draws_->draw(part_[0].matrix(DType::f32, rows_, first_), rows, out);
    other.get();
    return out;
  }
  void expect_same_bits(const SamplingParams& params, const std::string& what) {
    std::vector<SamplingParams> each(static_cast<size_t>(rows_), params);
    std::vector<SampleRow> rows;
    for (size_t i = 0; i < each.size(); i++) {
      each[i].seed = i * 7 + 1;
      SampleRow row{
          .logits_row = static_cast<int32_t>(rows_) - 1 - static_cast<int32_t>(i),
          .position = i % 5,
          .params = &each[i],
          .memory = &memory_,
          .allowed = i % 3 == 0 ? std::span<const uint64_t>(allowed_) : std::span<const uint64_t>()};
      if (i % 11 == 0 && given_) row.given = static_cast<int32_t>(i * 97 % static_cast<size_t>(vocab_));
      rows.push_back(row);
    }
    const auto want = alone(rows), got = shared(rows);
    for (size_t i = 0; i < rows.size(); i++) {
      ASSERT_EQ(got[i].token, want[i].token) << what << ", row " << i;
      ASSERT_EQ(got[i].logprob, want[i].logprob) << what << ", row " << i;
      ASSERT_EQ(got[i].top.size(), want[i].top.size()) << what << ", row " << i;
      for (size_t n = 0; n < want[i].top.size(); n++) {
        ASSERT_EQ(got[i].top[n].token, want[i].top[n].token) << what << ", row " << i;
        ASSERT_EQ(got[i].top[n].logprob, want[i].top[n].logprob) << what << ", row " << i;
      }
    }
  }

  int64_t vocab_ = 0, first_ = 0, rows_ = under_racecheck() ? 4 : kRows;
  std::vector<std::unique_ptr<Ops>> devices_;
  std::unique_ptr<SharedDraws> draws_;
  Buffer whole_, part_[2];
  PenaltyMemory memory_;
  std::vector<uint64_t> allowed_;
  bool given_ = false;
};

TEST_P(GpuSharedDraws, HaveTheBitsOfOneDevice) {
  struct Case {
    const char* what;
    float temperature, top_p, min_p;
    int top_k;
  };
  for (const Case& one : {Case{"greedy", 0, 1, 0, 0}, Case{"uncut", 1, 1, 0, 0}, Case{"top_p", 1, 0.8f, 0, 0},
                          Case{"top_k", 0.7f, 1, 0, 40}, Case{"min_p", 1.5f, 1, 0.02f, 0},
                          Case{"all limits", 1, 0.5f, 0.01f, 100}, Case{"nearly flat", 30, 0.99f, 0, 0}}) {
    SamplingParams params;
    params.temperature = one.temperature;
    params.top_p = one.top_p, params.min_p = one.min_p, params.top_k = one.top_k;
    expect_same_bits(params, one.what);
    params.temperature_last = true;
    expect_same_bits(params, std::string(one.what) + ", temperature last");
  }
}

TEST_P(GpuSharedDraws, WhatChangesLogitsChangesThemOnBoth) {
  const auto last = static_cast<int32_t>(vocab_ - 1), border = static_cast<int32_t>(first_);
  memory_.seen = {{3, 2.0f}, {border, 1.0f}, {last, -1.5f}};
  allowed_.assign(static_cast<size_t>(vocab_ + 63) / 64, 0xf0f0f0f0f0f0f0f0u);
  given_ = true;
  SamplingParams params;
  params.presence = 0.5f;
  params.banned = {5, border + 1};
  params.logit_bias = {{last - 1, 12.0f}, {7, -3.0f}};
  for (const int top_logprobs : {-1, 0, 5, 40}) {
    params.top_logprobs = top_logprobs;
    for (const float top_p : {1.0f, 0.7f}) {
      params.top_p = top_p;
      expect_same_bits(params, std::to_string(top_logprobs) + " log-probabilities");
    }
    for (const NoiseKind noise : {NoiseKind::gumbel, NoiseKind::uniform}) {
      SamplingParams noisy = params;
      noisy.noise = noise, noisy.noise_scale = 2;
      expect_same_bits(noisy, "noise, " + std::to_string(top_logprobs) + " log-probabilities");
    }
  }
}

TEST_P(GpuSharedDraws, ARankThatDoesNotComeIsNamed) {
  Ops* const group[] = {devices_[0].get(), devices_[1].get()};
  const auto draws = devices_[0]->draws_of(group, vocab_, std::chrono::milliseconds(100)).value();
  const SamplingParams params;
  const SampleRow row{.params = &params};
  std::vector<SampledToken> out(1);
  try {
    draws->draw(part_[0].matrix(DType::f32, rows_, first_), {&row, 1}, out);
    FAIL() << "nobody was missed";
  } catch (const DeviceFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("has waited 100 ms for rank 1"), std::string::npos)
        << failure.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, GpuSharedDraws, testing::Values(260, 5003, 65536));

}  // namespace
}  // namespace fulmar
