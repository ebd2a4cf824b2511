// The backward of RWKV-6's recurrence and of both halves of its block against central differences: odd
// lengths, packed sequences, one head and several, decays at both ends, adapters of each kind.
#include "rwkv6/backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checked_block.h"

namespace fulmar {
namespace {

using namespace support;
using M = HostNumbers;

const std::vector<BlockCase> kCases = {
    {{0, 1}, 1, 1, 0},
    {{0, 5}, 1, 4, 0, "lora"},
    {{0, 17, 18, 35}, 2, 3, -1, "miss"},
    {{0, 16, 49}, 2, 4, 1, "lora"},
    {{0, 3, 6}, 3, 2, -60},  // decays of exactly 1
    {{0, 3, 6}, 3, 2, 60},   // and of exactly 0
    {{0, 3, 6}, 3, 2, 800},  // whose exponents overflow
};

TimeMix6Parameters<double> make_time_mix(const BlockCase& c, CheckedParameters& made) {
  const int64_t width = c.width();
  const auto vector = [&](double base) { return made.make(1, width, 0.5, base); };
  TimeMix6Parameters<double> att;
  att.ln1 = {vector(1), vector(0)};
  att.mix_x = vector(0.5);
  for (auto& mix : att.mix) mix = vector(0.5);
  att.mix_w1 = made.make(width, 10, 0.5);
  att.mix_w2 = made.make(10, width, 0.5);
  for (auto* linear : {&att.receptance, &att.key, &att.value, &att.gate, &att.output}) {
    *linear = make_linear(made, width, width, c.adapter);
  }
  att.w = {made.make(width, 2, 0.7), made.make(2, width, 0.7), vector(c.decay)};
  att.vectors = {c.n_head, vector(0)};
  att.ln_x = {vector(1), vector(0)};
  return att;
}

class BlockBackward6 : public testing::TestWithParam<BlockCase> {};

TEST_P(BlockBackward6, TimeMixOfEveryInputAndWeight) {
  const BlockCase& c = GetParam();
  RandomNumbers random(7);
  CheckedParameters made(random);
  const TimeMix6Parameters<double> att = make_time_mix(c, made);
  M x = random.matrix(c.bounds.back(), c.width());
  Carry<double> carry = make_carry(c, random), dcarry = make_carry(c, random);
  const Carry<double> carry_weights = dcarry;
  const M weights = random.matrix(x.rows, x.cols);
  TimeMix6Tape<double> tape;
  const auto loss = [&] {
    Carry<double> left = carry;
    const M out = time_mix6(c.bounds, att, x, left, tape);
    return inner_product(out, weights) + inner_product(left.att_shift, carry_weights.att_shift) +
           inner_product(left.wkv, carry_weights.wkv);
  };
  loss();
  const M dx = time_mix6_vjp(c.bounds, att, tape, weights, dcarry);
  std::vector<CheckedTensor> checked = {
      {"x", &x, &dx}, {"shift", &carry.att_shift, &dcarry.att_shift}, {"state", &carry.wkv, &dcarry.wkv}};
  made.append_to(checked);
  expect_gradients(checked, random, loss);
}

TEST_P(BlockBackward6, ChannelMixOfEveryInputAndWeight) {
  const BlockCase& c = GetParam();
  RandomNumbers random(8);
  CheckedParameters made(random);
  const int64_t width = c.width();
  ChannelMix6Parameters<double> ffn;
  ffn.ln2 = {made.make(1, width), made.make(1, width)};
  ffn.mix_k = made.make(1, width), ffn.mix_r = made.make(1, width);
  ffn.key = make_linear(made, 3 * width, width, c.adapter);
  ffn.value = make_linear(made, width, 3 * width, c.adapter);
  ffn.receptance = make_linear(made, width, width, c.adapter);
  M x = random.matrix(c.bounds.back(), width);
  Carry<double> carry = make_carry(c, random), dcarry = make_carry(c, random);
  const M weights = random.matrix(x.rows, width), carry_weights = dcarry.ffn_shift;
  ChannelMix6Tape<double> tape;
  const auto loss = [&] {
    Carry<double> left = carry;
    const M out = channel_mix6(c.bounds, ffn, x, left, tape);
    return inner_product(out, weights) + inner_product(left.ffn_shift, carry_weights);
  };
  loss();
  const M dx = channel_mix6_vjp(c.bounds, ffn, tape, weights, dcarry);
  std::vector<CheckedTensor> checked = {{"x", &x, &dx}, {"shift", &carry.ffn_shift, &dcarry.ffn_shift}};
  made.append_to(checked);
  expect_gradients(checked, random, loss);
}

INSTANTIATE_TEST_SUITE_P(Cases, BlockBackward6, testing::ValuesIn(kCases));

TEST(Backward6, ChunksGiveTheGradientsOfTheWhole) {
  const BlockCase whole{{0, 37}, 2, 4, 0};
  RandomNumbers random(9);
  CheckedParameters made(random);
  const TimeMix6Parameters<double> att = make_time_mix(whole, made);
  const M x = random.matrix(37, 8), dout = random.matrix(37, 8);
  const Carry<double> start = make_carry(whole, random), dend = make_carry(whole, random);
  expect_chunks_give_the_whole(37, [&](const std::vector<int64_t>& cuts) {
    made.clear_gradients();
    std::vector<TimeMix6Tape<double>> tapes(cuts.size() - 1);
    Carry<double> carry = start, dcarry = dend;
    for (size_t i = 0; i + 1 < cuts.size(); i++) {
      time_mix6(std::vector<int64_t>{0, cuts[i + 1] - cuts[i]}, att, rows_of(x, cuts[i], cuts[i + 1]), carry,
                tapes[i]);
    }
    for (size_t i = cuts.size() - 1; i-- > 0;) {
      time_mix6_vjp(std::vector<int64_t>{0, cuts[i + 1] - cuts[i]}, att, tapes[i],
                    rows_of(dout, cuts[i], cuts[i + 1]), dcarry);
    }
    return made.gradients_and({dcarry.att_shift, dcarry.wkv});
  });
}

}  // namespace
}  // namespace fulmar
