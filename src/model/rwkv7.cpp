#include "model/rwkv7.h"

namespace fulmar {

namespace {

LowRank low_rank(Binder& binder, const std::string& name, int64_t width, int64_t rank, bool biased) {
  LowRank factors{
      binder.factor(name + "1", width, rank), binder.factor(name + "2", rank, width, Cut::outputs), {}};
  if (biased) factors.bias = binder.vector(name + "0", width, Cut::outputs);
  return factors;
}

}  // namespace

TimeMix7 bind_time_mix7(Binder& binder, int64_t layer) {
  const ModelConfig& config = binder.config();
  const int64_t c = config.n_embd;
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string p = block + "att.";
  TimeMix7 att;
  att.n_head = config.n_head / binder.slice().count;
  att.head_size = config.head_size;
  att.ln1 = binder.norm(block + "ln1", c);
  att.mix = binder.rows(p, {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"}, c);
  att.receptance = binder.matrix(p + "receptance.weight", c, c, WeightRole::projection, Cut::outputs);
  att.key = binder.matrix(p + "key.weight", c, c, WeightRole::projection, Cut::outputs);
  att.value = binder.matrix(p + "value.weight", c, c, WeightRole::projection, Cut::outputs);
  att.output = binder.matrix(p + "output.weight", c, c, WeightRole::projection, Cut::inputs);
  att.w = low_rank(binder, p + "w", c, config.rank_w, true);
  att.a = low_rank(binder, p + "a", c, config.rank_a, true);
  if (layer > 0) att.v = low_rank(binder, p + "v", c, config.rank_v, true);
  att.g = low_rank(binder, p + "g", c, config.rank_g, false);
  att.k_k = binder.vector(p + "k_k", c, Cut::outputs);
  att.k_a = binder.vector(p + "k_a", c, Cut::outputs);
  att.r_k = binder.vector(p + "r_k", c, Cut::outputs);
  att.ln_x = binder.norm(p + "ln_x", c, Cut::outputs);
  return att;
}

ChannelMix7 bind_channel_mix7(Binder& binder, int64_t layer) {
  const ModelConfig& config = binder.config();
  const int64_t c = config.n_embd, f = config.n_ffn, d = config.deep_embed_rank;
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string p = block + "ffn.";
  ChannelMix7 ffn;
  ffn.ln2 = binder.norm(block + "ln2", c);
  ffn.mix = binder.vector(p + "x_k", c);
  ffn.key = binder.matrix(p + "key.weight", f, c, WeightRole::ffn_key, Cut::outputs);
  ffn.value = binder.matrix(p + "value.weight", c, f, WeightRole::ffn_value, Cut::inputs);
  ffn.deep_embed = d > 0;
  if (!ffn.deep_embed) return ffn;
  ffn.deep_rank = d;
  ffn.s_emb = binder.matrix(p + "s_emb.weight", config.vocab, d * d, WeightRole::embedding);
  ffn.s_emb_x = binder.matrix(p + "s_emb_x.weight", d * d, c, WeightRole::low_rank);
  ffn.s1 = binder.factor(p + "s1", c, d);
  ffn.s2 = binder.factor(p + "s2", d, f, Cut::outputs);
  ffn.s0 = binder.vector(p + "s0", f, Cut::outputs);
  return ffn;
}

Memory7::Memory7(Buffers& buffers, int64_t max_rows, int64_t width, int64_t head_width, DType dtype) {
  Projected7& p = projected_;
  for (Tensor& tensor : mixed_) buffers.declare(tensor, max_rows, width, dtype);
  for (Tensor* tensor : {&y_, &p.r, &p.k, &p.v, &p.g, &p.u, &p.kk, &p.alpha}) {
    buffers.declare(*tensor, max_rows, head_width, dtype);
  }
}

Block7Work Memory7::work(const Batch& batch, const Stream& stream, const Addend& time_mixed) const {
  const auto rows = [&](const Tensor& tensor) { return tensor.slice_rows(0, batch.rows); };
  const Projected7& p = projected_;
  return {
      {rows(mixed_[0]), rows(mixed_[1]), rows(mixed_[2]), rows(mixed_[3]), rows(mixed_[4]), rows(mixed_[5])},
      stream.v_first,
      stream.v_first_wide,
      {rows(p.r), rows(p.k), rows(p.v), rows(p.g), rows(p.u), rows(p.kk), rows(p.alpha)},
      rows(y_),
      time_mixed.own,
      time_mixed.ranks};
}

Rwkv7::Rwkv7(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows)
    : Stack(binder, held, buffers, max_rows),
      memory_(buffers, max_rows, binder.config().n_embd, head_width(), ops().activation_dtype()) {
  layers_.reserve(static_cast<size_t>(held.count()));
}

Status Rwkv7::bind_layer(Binder& binder, int64_t layer) {
  layers_.push_back({bind_time_mix7(binder, layer), bind_channel_mix7(binder, layer)});
  return binder.finish_layer();
}

void Rwkv7::layers(const Batch& batch, const State& state, LayerRange range, Stream& stream) {
  const Tensor x = stream.x;
  const Addend time_mixed = this->time_mixed(batch), channel_mixed = this->channel_mixed(batch);
  const Block7Work work = memory_.work(batch, stream, time_mixed);

  Islands7& on = ops().rwkv7();
  for (int64_t l = range.first; l < range.last; l++) {
    const int64_t own = l - held().first;
    const auto& [att, ffn] = layers_[static_cast<size_t>(own)];
    const Block7State at{state.att_shift(own), state.wkv(own), state.ffn_shift(own)};
    if (stream.pending.empty() && on.block(batch, {att, ffn, l == 0}, x, work, at)) continue;
    on.enter(batch, att, x, stream.pending, at.att_shift, work.mixed);
    on.time_mix(batch, att, l == 0, work, at.wkv);
    on.channel_mix(batch, embedding(), ffn, x, time_mixed, at.ffn_shift, channel_mixed.own);
    stream.pending = channel_mixed;
  }
}

}  // namespace fulmar
