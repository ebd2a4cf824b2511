// The reference sampler against exact distributions, and every rule at its boundary. Seeds are fixed, so that
// nothing here is left to chance.
#include "ops/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "cpu/cpu_ops.h"
#include "ops/philox.h"
#include "ops/sampling_mode.h"

namespace fulmar {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SampledToken draw(std::vector<float> logits, const SamplingParams& params, uint64_t position = 0,
                  SampleRow row = {}) {
  row.params = &params;
  row.position = position;
  return sample_row(logits, row);
}

// How often each id comes in `draws` draws.
std::vector<double> frequencies(const std::vector<float>& logits, const SamplingParams& params, int draws,
                                const SampleRow& row = {}) {
  std::vector<double> share(logits.size());
  for (int i = 0; i < draws; i++) {
    share[static_cast<size_t>(draw(logits, params, static_cast<uint64_t>(i), row).token)] += 1.0 / draws;
  }
  return share;
}

// The distribution that sampling.h describes, by brute force: a full sort and doubles.
std::vector<double> exact(const std::vector<float>& logits, const SamplingParams& params) {
  const size_t n = logits.size();
  const double t = params.temperature_last ? 1.0 : params.temperature;
  std::vector<double> p(n);
  for (size_t i = 0; i < n; i++) p[i] = std::exp(logits[i] / t);
  const auto normalise = [&] {
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= total;
  };
  normalise();
  const double highest = *std::max_element(p.begin(), p.end());
  std::vector<double> levels = p;
  std::sort(levels.rbegin(), levels.rend());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  const size_t k =
      params.top_k <= 0 || static_cast<size_t>(params.top_k) > n ? n : static_cast<size_t>(params.top_k);
  std::vector<double> kept(n);
  double mass = 0;
  size_t count = 0;
  for (const double level : levels) {
    const auto ties = static_cast<size_t>(std::count(p.begin(), p.end(), level));
    const double by_mass =
        params.top_p < 1 ? (params.top_p - mass) / (level * static_cast<double>(ties)) : 1.0;
    const double by_count = static_cast<double>(k - count) / static_cast<double>(ties);
    const double share = std::clamp(std::min(by_mass, by_count), 0.0, 1.0);
    for (size_t i = 0; i < n; i++) {
      if (p[i] == level && level >= params.min_p * highest) kept[i] = level * share;
    }
    mass += level * static_cast<double>(ties);
    count += ties;
    if (count >= k || (params.top_p < 1 && mass >= params.top_p)) break;
  }
  p = kept;
  if (params.temperature_last) {
    for (double& value : p) value = value > 0 ? std::pow(value, 1.0 / params.temperature) : 0;
  }
  normalise();
  return p;
}

void expect_distribution(const std::vector<float>& logits, const SamplingParams& params) {
  constexpr int kDraws = 8000;
  const std::vector<double> want = exact(logits, params), got = frequencies(logits, params, kDraws);
  for (size_t i = 0; i < want.size(); i++) {
    const double deviation = std::sqrt(want[i] * (1 - want[i]) / kDraws);
    EXPECT_NEAR(got[i], want[i], 4.5 * deviation + 1e-9) << "id " << i;
  }
}

const std::vector<float> kLogits = {1.0f, 3.0f, 0.5f, 2.5f, -1.0f, 2.0f, 0.0f, -4.0f};
const std::vector<float> kTied = {2.0f, 1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f, -1.0f};

TEST(Sampling, UncutDrawsFollowTheSoftmax) {
  expect_distribution(kLogits, {.temperature = 1.0f});
  expect_distribution(kLogits, {.temperature = 2.5f, .seed = 7});
  expect_distribution(kLogits, {.temperature = 0.3f, .seed = 8});
}

TEST(Sampling, CutsFollowTheExactDistribution) {
  for (const auto& logits : {kLogits, kTied}) {
    for (const bool last : {false, true}) {
      for (const float temperature : {0.7f, 1.0f, 1.8f}) {
        SamplingParams params{.temperature = temperature, .temperature_last = last, .seed = 11};
        for (const int32_t k : {2, 3, 7, 8, 100}) {
          params.top_k = k;
          params.top_p = 1.0f;
          expect_distribution(logits, params);
        }
        for (const float p : {0.2f, 0.55f, 0.9f, 0.999f}) {
          params.top_k = 0;
          params.top_p = p;
          expect_distribution(logits, params);
          params.top_k = 4;
          expect_distribution(logits, params);
        }
        params.top_p = 1.0f;
        params.top_k = 0;
        params.min_p = 0.2f;
        expect_distribution(logits, params);
      }
    }
  }
}

TEST(Sampling, TiesAtTheBoundaryShareWhatIsLeft) {
  // Four equal ids behind the first; three places for five: each of the four stays with weight 2/4.
  const std::vector<double> share = frequencies(kTied, {.top_k = 3, .seed = 3}, 20000);
  const double first = std::exp(1.0) / (std::exp(1.0) + 2);
  EXPECT_NEAR(share[0], first, 0.02);
  for (size_t i = 1; i <= 4; i++) EXPECT_NEAR(share[i], (1 - first) / 4, 0.02);
  EXPECT_EQ(share[5] + share[6] + share[7], 0);
}

TEST(Sampling, OneTokenAlwaysSurvives) {
  for (uint64_t position = 0; position < 50; position++) {
    EXPECT_EQ(draw(kLogits, {.top_p = 1e-7f}, position).token, 1);
    EXPECT_EQ(draw(kLogits, {.min_p = 1.0f}, position).token, 1);
    EXPECT_EQ(draw(kLogits, {.temperature = 0.001f, .top_p = 0.5f, .temperature_last = true}, position).token,
              1);
  }
}

TEST(Sampling, GreedyTakesTheLowestOfEquals) {
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0}, SamplingParams{.top_k = 1}, SamplingParams{.top_p = 0}}) {
    EXPECT_EQ(draw({1, 5, 2, 5, 5}, params).token, 1);
    EXPECT_EQ(draw(std::vector<float>(33, -2.0f), params).token, 0);
    EXPECT_EQ(draw({-3}, params).token, 0);
  }
}

TEST(Sampling, BrokenLogitsAreCleaned) {
  const SamplingParams greedy{.temperature = 0};
  EXPECT_EQ(draw({NAN, -1, 2, -kInfinity}, greedy).token, 2);
  EXPECT_EQ(draw({NAN, -1, -2, -kInfinity}, greedy).token, 0);  // NaN counts as 0
  EXPECT_EQ(draw({1, kInfinity, 2}, greedy).token, 1);
  EXPECT_EQ(draw({-kInfinity, -kInfinity}, greedy).token, 0);
  const SampledToken sure = draw({1, kInfinity, NAN}, {.top_logprobs = 2});
  EXPECT_EQ(sure.token, 1);
  EXPECT_NEAR(sure.logprob, 0, 1e-6);
}

TEST(Sampling, AStopIdIsMarked) {
  const SamplingParams greedy{.temperature = 0};
  const std::vector<int32_t> ids{3, 0};
  SampleRow row;
  EXPECT_FALSE(draw({1, 2, 3, 4}, greedy, 0, row).stops);
  row.stops = ids;
  EXPECT_TRUE(draw({1, 2, 3, 4}, greedy, 0, row).stops);
  EXPECT_FALSE(draw({1, 2, 5, 4}, greedy, 0, row).stops);
  EXPECT_TRUE(draw({-kInfinity, -kInfinity}, greedy, 0, row).stops);  // id 0, as nothing is left
}

TEST(Sampling, ForbiddenIdsAreNeverDrawn) {
  SamplingParams params{.temperature = 5.0f, .banned = {1, 3}};
  const std::vector<int32_t> here = {5};
  const std::vector<uint64_t> allowed = {0b01101111};
  SampleRow row;
  row.banned_here = here;
  row.allowed = allowed;
  const std::vector<double> share = frequencies(kLogits, params, 5000, row);
  for (const size_t id : {1, 3, 4, 5, 7}) EXPECT_EQ(share[id], id == 4 ? share[4] : 0) << id;
  EXPECT_EQ(share[4], 0);
  EXPECT_GT(std::min({share[0], share[2], share[6]}), 0.2);
  // Ids behind the end of a short mask are forbidden; ids out of range are ignored.
  params.banned = {-1, 1 << 20};
  std::vector<float> wide(100, 0.0f);
  for (const double id : frequencies(wide, params, 10, row)) EXPECT_LE(id, 1);
  for (uint64_t i = 0; i < 200; i++) EXPECT_LT(draw(wide, params, i, row).token, 7);
  params.banned = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(draw(kLogits, params).token, 0) << "nothing left: id 0";
}

TEST(Sampling, BiasMovesLogits) {
  SamplingParams params{.temperature = 0, .logit_bias = {{7, 8.0f}, {1, -5.0f}}};
  EXPECT_EQ(draw(kLogits, params).token, 7);
  params.logit_bias = {{1, -100.0f}, {400, 3.0f}};
  EXPECT_EQ(draw(kLogits, params).token, 3);
}

TEST(Sampling, PenaltiesFollowTheContract) {
  const SamplingParams params{.presence = 2.0f, .frequency = 0.5f, .decay = 0.5f};
  PenaltyMemory memory;
  memory.record(4, params);
  memory.record(6, params);
  memory.record(4, params);
  ASSERT_EQ(memory.seen.size(), 2u);
  EXPECT_EQ(memory.seen[0].token, 4);
  EXPECT_FLOAT_EQ(memory.seen[0].penalty, 2.0f * 0.25f + 0.5f);
  EXPECT_FLOAT_EQ(memory.seen[1].penalty, 2.0f * 0.5f);

  SampleRow row;
  row.memory = &memory;
  EXPECT_EQ(draw({0, 0, 0, 0, 0.9f, 0, 0.8f, 0}, {.temperature = 0, .presence = 2.0f}, 0, row).token, 0);
  EXPECT_EQ(draw({0, 0, 0, 0, 1.1f, 0, 0.8f, 0}, {.temperature = 0, .presence = 2.0f}, 0, row).token, 4);
  EXPECT_EQ(draw({0, 0, 0, 0, 0.9f, 0, 0.8f, 0}, {.temperature = 0}, 0, row).token, 4)
      << "no penalties asked";

  // A seen flag of its own: frequency alone works although presence is 0.
  const SamplingParams frequency{.frequency = 0.5f, .decay = 1.0f};
  PenaltyMemory counting;
  counting.record(3, frequency);
  EXPECT_EQ(counting.seen[0].penalty, 0);
  counting.record(3, frequency);
  EXPECT_FLOAT_EQ(counting.seen[0].penalty, 0.5f);
  PenaltyMemory idle;
  idle.record(3, {});
  EXPECT_TRUE(idle.seen.empty());
}

TEST(Sampling, LogProbabilitiesComeAfterBiasPenaltiesMasksAndTemperature) {
  PenaltyMemory memory;
  memory.seen = {{5, 1.5f}};
  const SamplingParams params{.temperature = 2.0f,
                              .top_k = 1,
                              .presence = 1.5f,
                              .logit_bias = {{0, 1.0f}},
                              .banned = {1},
                              .top_logprobs = 3};
  SampleRow row;
  row.memory = &memory;
  const SampledToken sampled = draw(kLogits, params, 0, row);
  std::vector<double> z(kLogits.begin(), kLogits.end());
  z[0] += 1.0;
  z[5] -= 1.5;
  double total = 0;
  for (size_t i = 0; i < z.size(); i++) total += i == 1 ? 0 : std::exp(z[i] / 2);
  EXPECT_EQ(sampled.token, 3);
  EXPECT_NEAR(sampled.logprob, z[3] / 2 - std::log(total), 1e-5);
  ASSERT_EQ(sampled.top.size(), 3u);
  const int32_t order[] = {3, 0, 2};  // 2.5, 2.0, then 0.5 at ids 2 and 5: the lower id
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(sampled.top[i].token, order[i]);
    EXPECT_NEAR(sampled.top[i].logprob, z[static_cast<size_t>(order[i])] / 2 - std::log(total), 1e-5);
  }
  EXPECT_TRUE(draw(kLogits, {.top_logprobs = 0}).top.empty());
  EXPECT_LT(draw(kLogits, {.top_logprobs = 0}).logprob, 0);
  EXPECT_EQ(draw(kLogits, {.top_logprobs = 50}).top.size(), kLogits.size());
}

TEST(Sampling, AGivenIdIsScoredAndNotDrawn) {
  double total = 0;
  for (const float logit : kLogits) total += std::exp(static_cast<double>(logit));
  for (int32_t id = 0; id < static_cast<int32_t>(kLogits.size()); id++) {
    SampleRow row;
    row.given = id;
    for (const SamplingParams& params :
         {SamplingParams{.top_logprobs = 1}, SamplingParams{.top_k = 1, .top_logprobs = 1},
          SamplingParams{.noise = NoiseKind::gumbel, .top_logprobs = 1}}) {
      const SampledToken scored = draw(kLogits, params, 0, row);
      EXPECT_EQ(scored.token, id);
      EXPECT_NEAR(scored.logprob, kLogits[static_cast<size_t>(id)] - std::log(total), 1e-5);
      EXPECT_EQ(scored.top.at(0).token, 1) << "the likeliest is listed all the same";
    }
  }
}

TEST(Sampling, GumbelNoiseDrawsFromTheSoftmaxAndIgnoresCuts) {
  const SamplingParams params{
      .temperature = 1.5f, .top_k = 1, .top_p = 0.1f, .noise = NoiseKind::gumbel, .seed = 5};
  const std::vector<double> want = exact(kLogits, {.temperature = 1.5f});
  const std::vector<double> got = frequencies(kLogits, params, 20000);
  for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(got[i], want[i], 0.015) << i;
  EXPECT_EQ(draw(kLogits, {.temperature = 0, .noise = NoiseKind::gumbel}).token, 1);
}

TEST(Sampling, UniformNoiseIsBoundedByItsScale) {
  // Logits 3.0 and 2.5 with noise below 1: the second wins with probability 0.5 * 0.5^2 = 1/8; 2.0 never.
  const SamplingParams params{.noise = NoiseKind::uniform, .noise_scale = 1.0f, .seed = 6};
  const std::vector<double> share = frequencies({0, 3, 0, 2.5f, 0, 2}, params, 20000);
  EXPECT_NEAR(share[3], 0.125, 0.01);
  EXPECT_NEAR(share[1], 0.875, 0.01);
  EXPECT_EQ(share[5], 0);
  EXPECT_EQ(draw({1, 4, 4}, {.noise = NoiseKind::uniform, .noise_scale = 0}).token, 1);
}

TEST(Sampling, WideRowsAgreeWithBruteForce) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> logits(65536);
  for (float& value : logits) value = normal(random);
  for (size_t i = 0; i < 40; i++) logits[i * 1000 + 17] = 9.25f;  // ties across blocks
  for (const SamplingParams& params :
       {SamplingParams{.top_k = 50, .top_p = 0.6f}, SamplingParams{.top_k = 20},
        SamplingParams{.top_p = 0.3f}, SamplingParams{.top_p = 0.95f},
        SamplingParams{.temperature = 0.5f, .top_k = 3000, .min_p = 0.01f}}) {
    const std::vector<double> want = exact(logits, params);
    const std::vector<double> got = frequencies(logits, params, 300);
    double common = 0;  // of both distributions, in coarse bins of ids
    std::vector<double> want_bins(8), got_bins(8);
    for (size_t i = 0; i < want.size(); i++) {
      EXPECT_FALSE(got[i] > 0 && want[i] == 0) << "id " << i;
      want_bins[i * 8 / want.size()] += want[i];
      got_bins[i * 8 / want.size()] += got[i];
    }
    for (size_t bin = 0; bin < 8; bin++) common += std::min(want_bins[bin], got_bins[bin]);
    EXPECT_GT(common, 0.85);
  }
}

TEST(Sampling, SameSeedAndPositionGiveTheSameTokenWhateverSharesTheBatch) {
  const std::unique_ptr<Ops> ops = make_cpu_ops({.threads = 2});
  std::mt19937 random(4);
  std::vector<float> rows(9 * 500);
  for (float& value : rows) value = static_cast<float>(random() % 1000) / 200.0f;
  const Tensor logits{rows.data(), DType::f32, 9, 500, 500};
  const SamplingParams params{.top_k = 40, .top_p = 0.9f, .seed = 77};
  std::vector<SampleRow> asks;
  for (int32_t i = 0; i < 9; i++) {
    asks.push_back(
        {.logits_row = i, .slot = 9 - i, .position = static_cast<uint64_t>(100 + i), .params = &params});
  }
  std::vector<SampledToken> together(9);
  ops->sample(logits, asks, together);
  for (size_t i = 0; i < 9; i++) {
    const std::vector<float> own(rows.begin() + static_cast<ptrdiff_t>(i * 500),
                                 rows.begin() + static_cast<ptrdiff_t>((i + 1) * 500));
    EXPECT_EQ(draw(own, params, 100 + i).token, together[i].token);
    std::vector<SampledToken> alone(1);
    SampleRow moved = asks[i];
    moved.slot = 3;
    ops->Ops::sample(logits, std::span(&moved, 1), alone);
    EXPECT_EQ(alone[0].token, together[i].token);
  }
}

TEST(Philox, KnownAnswers) {
  // Salmon et al.: Philox4x32-10 of all zeros, and of all ones.
  const PhiloxBlock zeros = philox(0, 0, 0);
  EXPECT_EQ(zeros.x[0], 0x6627e8d5u);
  EXPECT_EQ(zeros.x[1], 0xe169c58du);
  EXPECT_EQ(zeros.x[2], 0xbc57ac4cu);
  EXPECT_EQ(zeros.x[3], 0x9b00dbd8u);
  const PhiloxBlock ones = philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0});
  EXPECT_EQ(ones.x[0], 0x408f276du);
  EXPECT_EQ(ones.x[1], 0x41c83b0eu);
  EXPECT_EQ(ones.x[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.x[3], 0x6d5451fdu);
}

TEST(Surveys, SufficeForDrawsThatLookAtFewLogits) {
  const auto suffices = [](const SamplingParams& params, int32_t given = -1) {
    SampleRow row;
    row.params = &params;
    row.given = given;
    return survey_suffices(row);
  };
  SamplingParams params;
  EXPECT_TRUE(suffices(params));
  params.temperature = 0.7f, params.presence = 1, params.top_logprobs = 0;
  EXPECT_TRUE(suffices(params)) << "what changes logits is part of the survey";
  for (const auto& change : std::vector<void (*)(SamplingParams&)>{
           [](SamplingParams& p) { p.top_k = 40; }, [](SamplingParams& p) { p.top_p = 0.9f; },
           [](SamplingParams& p) { p.min_p = 0.1f; }, [](SamplingParams& p) { p.temperature_last = true; },
           [](SamplingParams& p) { p.noise = NoiseKind::gumbel; },
           [](SamplingParams& p) { p.top_logprobs = 5; }}) {
    SamplingParams changed = params;
    change(changed);
    EXPECT_FALSE(suffices(changed));
  }
  SamplingParams greedy = params;
  greedy.top_p = 0;
  EXPECT_TRUE(suffices(greedy));
  params.top_p = 0.9f;
  EXPECT_TRUE(suffices(params, 7)) << "an id to score is not drawn";
}

}  // namespace
}  // namespace fulmar
