// The backward of RWKV-7's primitives and of both halves of its block against central differences: odd
// lengths, packed sequences, one head and several, decays at both ends, adapters of each kind.
#include "rwkv7/backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checked_block.h"

namespace fulmar {
namespace {

using namespace support;
using M = HostNumbers;

const std::vector<BlockCase> kCases = {
    {{0, 1}, 1, 1, 0},
    {{0, 5}, 1, 4, 0, "lora", false},
    {{0, 17, 18, 35}, 2, 3, -1, "miss"},
    {{0, 16, 49}, 2, 4, 1, "lora", false},
    {{0, 3, 6}, 3, 2, -60, "", false},  // decays of exactly 1
    {{0, 3, 6}, 3, 2, 60},              // and at their fastest: no gradient
};

TimeMix7Parameters<double> make_time_mix(const BlockCase& c, CheckedParameters& made) {
  const int64_t width = c.width();
  const auto vector = [&](double base) { return made.make(1, width, 0.5, base); };
  const auto low_rank_of = [&](int64_t rank, Parameter<double>* bias) {
    return LowRankParameters<double>{made.make(width, rank, 0.7), made.make(rank, width, 0.7), bias};
  };
  TimeMix7Parameters<double> att;
  att.ln1 = {vector(1), vector(0)};
  for (auto& mix : att.mix) mix = vector(0.5);
  att.receptance = make_linear(made, width, width, c.adapter);
  att.key = make_linear(made, width, width, c.adapter);
  att.value = make_linear(made, width, width, c.adapter);
  att.output = make_linear(made, width, width, c.adapter);
  att.w = low_rank_of(2, vector(c.decay));
  att.a = low_rank_of(3, vector(0));
  if (!c.first_block) att.v = low_rank_of(2, vector(0));
  att.g = low_rank_of(3, nullptr);
  att.vectors = {c.n_head, vector(1), vector(1), vector(0)};
  att.ln_x = {vector(1), vector(0)};
  return att;
}

// A loss of everything that time mixing returns: each result times a fixed matrix.
struct TimeMixResults {
  M out, v_first;
  Carry<double> carry;
};
double loss_of(const TimeMixResults& results, const TimeMixResults& weights) {
  return inner_product(results.out, weights.out) + inner_product(results.v_first, weights.v_first) +
         inner_product(results.carry.att_shift, weights.carry.att_shift) +
         inner_product(results.carry.wkv, weights.carry.wkv);
}

class BlockBackward7 : public testing::TestWithParam<BlockCase> {};

TEST_P(BlockBackward7, TimeMixOfEveryInputAndWeight) {
  const BlockCase& c = GetParam();
  RandomNumbers random(7);
  CheckedParameters made(random);
  const TimeMix7Parameters<double> att = make_time_mix(c, made);
  M x = random.matrix(c.bounds.back(), c.width());
  M v_first = random.matrix(x.rows, x.cols);
  Carry<double> carry = make_carry(c, random);
  const TimeMixResults weights{random.matrix(x.rows, x.cols), random.matrix(x.rows, x.cols),
                               make_carry(c, random)};
  TimeMix7Tape<double> tape;
  const auto loss = [&] {
    TimeMixResults results{{}, v_first, carry};
    results.out = time_mix7(c.bounds, att, x, results.v_first, results.carry, tape);
    return loss_of(results, weights);
  };
  loss();
  M dv_first = weights.v_first;
  Carry<double> dcarry = weights.carry;
  const M dx = time_mix7_vjp(c.bounds, att, tape, weights.out, dv_first, dcarry);
  std::vector<CheckedTensor> checked = {
      {"x", &x, &dx}, {"shift", &carry.att_shift, &dcarry.att_shift}, {"state", &carry.wkv, &dcarry.wkv}};
  if (!c.first_block) checked.push_back({"v_first", &v_first, &dv_first});
  made.append_to(checked);
  expect_gradients(checked, random, loss);
}

TEST_P(BlockBackward7, ChannelMixOfEveryInputAndWeight) {
  const BlockCase& c = GetParam();
  RandomNumbers random(8);
  CheckedParameters made(random);
  const int64_t width = c.width();
  const ChannelMix7Parameters<double> ffn{{made.make(1, width), made.make(1, width)},
                                          made.make(1, width),
                                          make_linear(made, 3 * width, width, c.adapter),
                                          make_linear(made, width, 3 * width, c.adapter)};
  M x = random.matrix(c.bounds.back(), width);
  Carry<double> carry = make_carry(c, random), dcarry = make_carry(c, random);
  const M weights = random.matrix(x.rows, width), carry_weights = dcarry.ffn_shift;
  ChannelMix7Tape<double> tape;
  const auto loss = [&] {
    Carry<double> left = carry;
    const M out = channel_mix7(c.bounds, ffn, x, left, tape);
    return inner_product(out, weights) + inner_product(left.ffn_shift, carry_weights);
  };
  loss();
  const M dx = channel_mix7_vjp(c.bounds, ffn, tape, weights, dcarry);
  std::vector<CheckedTensor> checked = {{"x", &x, &dx}, {"shift", &carry.ffn_shift, &dcarry.ffn_shift}};
  made.append_to(checked);
  expect_gradients(checked, random, loss);
}

INSTANTIATE_TEST_SUITE_P(Cases, BlockBackward7, testing::ValuesIn(kCases));

TEST(Backward7, ChunksGiveTheGradientsOfTheWhole) {
  const BlockCase whole{{0, 37}, 2, 4, 0};
  RandomNumbers random(9);
  CheckedParameters made(random);
  const TimeMix7Parameters<double> att = make_time_mix(whole, made);
  const M x = random.matrix(37, 8), dout = random.matrix(37, 8);
  const Carry<double> start = make_carry(whole, random), dend = make_carry(whole, random);
  expect_chunks_give_the_whole(37, [&](const std::vector<int64_t>& cuts) {
    made.clear_gradients();
    std::vector<TimeMix7Tape<double>> tapes(cuts.size() - 1);
    Carry<double> carry = start, dcarry = dend;
    for (size_t i = 0; i + 1 < cuts.size(); i++) {
      M v_first;
      time_mix7(std::vector<int64_t>{0, cuts[i + 1] - cuts[i]}, att, rows_of(x, cuts[i], cuts[i + 1]),
                v_first, carry, tapes[i]);
    }
    for (size_t i = cuts.size() - 1; i-- > 0;) {
      M dv_first(cuts[i + 1] - cuts[i], x.cols);
      time_mix7_vjp(std::vector<int64_t>{0, cuts[i + 1] - cuts[i]}, att, tapes[i],
                    rows_of(dout, cuts[i], cuts[i + 1]), dv_first, dcarry);
    }
    return made.gradients_and({dcarry.att_shift, dcarry.wkv});
  });
}

// A head whose keys are zero has its length at the lower bound: kk is not projected, and nothing divides zero
// by zero.
TEST(Backward7, DeadHeadsHaveFiniteGradients) {
  Parameter<float> k_k{Matrix<float>(1, 4), Matrix<float>(1, 4)}, k_a = k_k, r_k = k_k;
  k_k.value.values = {1, 1, 1, 1};
  const HeadVectors7<float> vectors{2, &k_k, &k_a, &r_k};
  Matrix<float> key(1, 4), zeros(1, 4);
  key.values = {0, 0, 3, 4};
  HostProjected7<float> p;
  p.alpha = zeros;
  prepare_key7(vectors, key, p);
  EXPECT_THAT(p.kk.values, testing::ElementsAre(0, 0, 0.6f, 0.8f));
  HostProjected7<float> d{zeros, zeros, zeros, zeros, zeros, zeros, zeros};
  d.kk.values = {1, 1, 1, 1};
  const Matrix<float> dkey = prepare_key7_vjp(vectors, key, p, d);
  for (const float one : dkey.values) EXPECT_TRUE(std::isfinite(one));
  EXPECT_FLOAT_EQ(k_k.gradient(0, 0), 0) << "a dead channel moves nothing";
}

}  // namespace
}  // namespace fulmar
