#include "cases/layers.h"

namespace fulmar::cases {

namespace {

LowRank low_rank(WeightSource& source, int64_t width, int64_t rank, bool biased) {
  LowRank path{
      source.weight(rank, width, WeightRole::low_rank), source.weight(width, rank, WeightRole::low_rank), {}};
  if (biased) path.bias = source.vector(1, width, -1, 1);
  return path;
}

Weight square(WeightSource& source, int64_t width) {
  return source.weight(width, width, WeightRole::projection);
}

}  // namespace

TimeMix7 make_time_mix7(WeightSource& source, const LayerShape& shape, bool first_block) {
  const int64_t c = shape.width();
  TimeMix7 att;
  att.n_head = shape.n_head;
  att.head_size = shape.head_size;
  att.ln1 = source.norm(c);
  att.mix = source.vector(6, c, 0, 1);
  att.receptance = square(source, c);
  att.key = square(source, c);
  att.value = square(source, c);
  att.output = square(source, c);
  att.w = low_rank(source, c, shape.rank_w, true);
  att.a = low_rank(source, c, shape.rank_a, true);
  if (!first_block) att.v = low_rank(source, c, shape.rank_v, true);
  att.g = low_rank(source, c, shape.rank_g, false);
  att.k_k = source.vector(1, c, -1, 1);
  att.k_a = source.vector(1, c, -1, 1);
  att.r_k = source.vector(1, c, -1, 1);
  att.ln_x = source.norm(c);
  return att;
}

ChannelMix7 make_channel_mix7(WeightSource& source, const LayerShape& shape, bool deep) {
  const int64_t c = shape.width(), f = shape.n_ffn, d = shape.deep_rank;
  ChannelMix7 ffn;
  ffn.ln2 = source.norm(c);
  ffn.mix = source.vector(1, c, 0, 1);
  ffn.key = source.weight(f, c, WeightRole::ffn_key);
  ffn.value = source.weight(c, f, WeightRole::ffn_value);
  if (!deep) return ffn;
  ffn.deep_embed = true;
  ffn.deep_rank = d;
  ffn.s_emb = source.weight(shape.deep_vocab, d * d, WeightRole::embedding);
  ffn.s_emb_x = source.weight(d * d, c, WeightRole::low_rank);
  ffn.s1 = source.weight(d, c, WeightRole::low_rank);
  ffn.s2 = source.weight(f, d, WeightRole::low_rank);
  ffn.s0 = source.vector(1, f, -1, 1);
  return ffn;
}

TimeMix6 make_time_mix6(WeightSource& source, const LayerShape& shape) {
  const int64_t c = shape.width();
  TimeMix6 att;
  att.n_head = shape.n_head;
  att.head_size = shape.head_size;
  att.ln1 = source.norm(c);
  att.mix_x = source.vector(1, c, 0, 1);
  att.mix = source.vector(5, c, 0, 1);
  att.mix_w1 = source.weight(5 * shape.rank_mix, c, WeightRole::low_rank);
  for (Weight& second : att.mix_w2) second = source.weight(c, shape.rank_mix, WeightRole::low_rank);
  att.receptance = square(source, c);
  att.key = square(source, c);
  att.value = square(source, c);
  att.gate = square(source, c);
  att.output = square(source, c);
  att.w = low_rank(source, c, shape.rank_decay, true);
  att.u = source.vector(1, c, -1, 1);
  att.ln_x = source.norm(c);
  return att;
}

ChannelMix6 make_channel_mix6(WeightSource& source, const LayerShape& shape) {
  const int64_t c = shape.width(), f = shape.n_ffn;
  ChannelMix6 ffn;
  ffn.ln2 = source.norm(c);
  ffn.mix_k = source.vector(1, c, 0, 1);
  ffn.mix_r = source.vector(1, c, 0, 1);
  ffn.key = source.weight(f, c, WeightRole::ffn_key);
  ffn.value = source.weight(c, f, WeightRole::ffn_value);
  ffn.receptance = square(source, c);
  return ffn;
}

}  // namespace fulmar::cases
