#include "model/rwkv6.h"

namespace fulmar {

namespace {

TimeMix6 time_mix(Binder& binder, int64_t layer) {
  const ModelConfig& config = binder.config();
  const int64_t c = config.n_embd, rank = config.rank_mix;
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string p = block + "att.";
  TimeMix6 att;
  att.n_head = config.n_head / binder.slice().count;
  att.head_size = config.head_size;
  att.ln1 = binder.norm(block + "ln1", c);
  att.mix_x = binder.vector(p + "time_maa_x", c);
  att.mix = binder.rows(p, {"time_maa_w", "time_maa_k", "time_maa_v", "time_maa_r", "time_maa_g"}, c);
  att.mix_w1 = binder.factor(p + "time_maa_w1", c, 5 * rank);
  for (int64_t i = 0; i < 5; i++) att.mix_w2[i] = binder.factor_slice(p + "time_maa_w2", i, 5, rank, c);
  att.receptance = binder.matrix(p + "receptance.weight", c, c, WeightRole::projection, Cut::outputs);
  att.key = binder.matrix(p + "key.weight", c, c, WeightRole::projection, Cut::outputs);
  att.value = binder.matrix(p + "value.weight", c, c, WeightRole::projection, Cut::outputs);
  att.gate = binder.matrix(p + "gate.weight", c, c, WeightRole::projection, Cut::outputs);
  att.output = binder.matrix(p + "output.weight", c, c, WeightRole::projection, Cut::inputs);
  att.w.first = binder.factor(p + "time_decay_w1", c, config.rank_decay);
  att.w.second = binder.factor(p + "time_decay_w2", config.rank_decay, c, Cut::outputs);
  att.w.bias = binder.vector(p + "time_decay", c, Cut::outputs);
  att.u = binder.vector(p + "time_faaaa", c, Cut::outputs);
  att.ln_x = binder.norm(p + "ln_x", c, Cut::outputs);
  return att;
}

ChannelMix6 channel_mix(Binder& binder, int64_t layer) {
  const ModelConfig& config = binder.config();
  const int64_t c = config.n_embd, f = config.n_ffn;
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string p = block + "ffn.";
  ChannelMix6 ffn;
  ffn.ln2 = binder.norm(block + "ln2", c);
  ffn.mix_k = binder.vector(p + "time_maa_k", c);
  ffn.mix_r = binder.vector(p + "time_maa_r", c);
  ffn.key = binder.matrix(p + "key.weight", f, c, WeightRole::ffn_key, Cut::outputs);
  ffn.value = binder.matrix(p + "value.weight", c, f, WeightRole::ffn_value, Cut::inputs);
  // Each rank multiplies its addend by the whole gate, so the all-reduce is the gated sum.
  ffn.receptance = binder.matrix(p + "receptance.weight", c, c, WeightRole::projection);
  return ffn;
}

}  // namespace

Rwkv6::Rwkv6(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows)
    : Stack(binder, held, buffers, max_rows) {
  layers_.reserve(static_cast<size_t>(held.count()));
  const DType dtype = ops().activation_dtype();
  Projected6& p = projected_;
  for (Tensor& tensor : mixed_) buffers.declare(tensor, max_rows, binder.config().n_embd, dtype);
  for (Tensor* tensor : {&y_, &p.r, &p.k, &p.v, &p.g, &p.u}) {
    buffers.declare(*tensor, max_rows, head_width(), dtype);
  }
}

Status Rwkv6::bind_layer(Binder& binder, int64_t layer) {
  layers_.push_back({time_mix(binder, layer), channel_mix(binder, layer)});
  return binder.finish_layer();
}

void Rwkv6::layers(const Batch& batch, const State& state, LayerRange range, Stream& stream) {
  const auto rows = [&](const Tensor& tensor) { return tensor.slice_rows(0, batch.rows); };
  const Tensor x = stream.x, y = rows(y_);
  const Addend time_mixed = this->time_mixed(batch), channel_mixed = this->channel_mixed(batch);
  const Tensor mixed[5] = {rows(mixed_[0]), rows(mixed_[1]), rows(mixed_[2]), rows(mixed_[3]),
                           rows(mixed_[4])};
  const auto& all = projected_;
  const Projected6 p{rows(all.r), rows(all.k), rows(all.v), rows(all.g), rows(all.u)};

  Islands6& on = ops().rwkv6();
  for (int64_t l = range.first; l < range.last; l++) {
    const int64_t own = l - held().first;
    const auto& [att, ffn] = layers_[static_cast<size_t>(own)];
    on.enter(batch, att, x, stream.pending, state.att_shift(own), mixed);
    on.project(batch, att, mixed, p);
    on.attend(batch, att, p, state.wkv(own), y, time_mixed.own);
    on.channel_mix(batch, ffn, x, time_mixed, state.ffn_shift(own), channel_mixed.own);
    stream.pending = channel_mixed;
  }
}

}  // namespace fulmar
