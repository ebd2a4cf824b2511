#include "model/rwkv7.h"

namespace fulmar {

namespace {

LowRank low_rank(Binder& binder, const std::string& name, int64_t width, int64_t rank, bool biased) {
  LowRank factors{binder.factor(name + "1", width, rank), binder.factor(name + "2", rank, width), {}};
  if (biased) factors.bias = binder.vector(name + "0", width);
  return factors;
}

TimeMix7 time_mix(Binder& binder, int64_t layer) {
  const ModelConfig& config = binder.config();
  const int64_t c = config.n_embd;
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string p = block + "att.";
  TimeMix7 att;
  att.n_head = config.n_head;
  att.head_size = config.head_size;
  att.ln1 = binder.norm(block + "ln1", c);
  att.mix = binder.rows(p, {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"}, c);
  att.receptance = binder.matrix(p + "receptance.weight", c, c, WeightRole::projection);
  att.key = binder.matrix(p + "key.weight", c, c, WeightRole::projection);
  att.value = binder.matrix(p + "value.weight", c, c, WeightRole::projection);
  att.output = binder.matrix(p + "output.weight", c, c, WeightRole::projection);
  att.w = low_rank(binder, p + "w", c, config.rank_w, true);
  att.a = low_rank(binder, p + "a", c, config.rank_a, true);
  if (layer > 0) att.v = low_rank(binder, p + "v", c, config.rank_v, true);
  att.g = low_rank(binder, p + "g", c, config.rank_g, false);
  att.k_k = binder.vector(p + "k_k", c);
  att.k_a = binder.vector(p + "k_a", c);
  att.r_k = binder.vector(p + "r_k", c);
  att.ln_x = binder.norm(p + "ln_x", c);
  return att;
}

ChannelMix7 channel_mix(Binder& binder, int64_t layer) {
  const ModelConfig& config = binder.config();
  const int64_t c = config.n_embd, f = config.n_ffn, d = config.deep_embed_rank;
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string p = block + "ffn.";
  ChannelMix7 ffn;
  ffn.ln2 = binder.norm(block + "ln2", c);
  ffn.mix = binder.vector(p + "x_k", c);
  ffn.key = binder.matrix(p + "key.weight", f, c, WeightRole::ffn_key);
  ffn.value = binder.matrix(p + "value.weight", c, f, WeightRole::ffn_value);
  ffn.deep_embed = d > 0;
  if (!ffn.deep_embed) return ffn;
  ffn.deep_rank = d;
  ffn.s_emb = binder.matrix(p + "s_emb.weight", config.vocab, d * d, WeightRole::embedding);
  ffn.s_emb_x = binder.matrix(p + "s_emb_x.weight", d * d, c, WeightRole::low_rank);
  ffn.s1 = binder.factor(p + "s1", c, d);
  ffn.s2 = binder.factor(p + "s2", d, f);
  ffn.s0 = binder.vector(p + "s0", f);
  return ffn;
}

}  // namespace

Rwkv7::Rwkv7(const ModelConfig& config, Ops& ops, int64_t max_rows) : Model(config, ops) {
  const int64_t c = config.n_embd;
  const DType activation = ops.activation_dtype();
  buffers().declare(x_, max_rows, c, ops.residual_dtype());
  buffers().declare(v_first_wide_, 1, c, DType::f32);
  Projected7& p = projected_;
  for (Tensor* tensor : {&pending_, &mixed_[0], &mixed_[1], &mixed_[2], &mixed_[3], &mixed_[4], &mixed_[5],
                         &v_first_, &y_, &p.r, &p.k, &p.v, &p.g, &p.u, &p.kk, &p.alpha}) {
    buffers().declare(*tensor, max_rows, c, activation);
  }
}

Result<std::unique_ptr<Rwkv7>> Rwkv7::bind(Binder& binder, int64_t max_rows,
                                           const std::function<void(int64_t)>& loaded) {
  std::unique_ptr<Rwkv7> model(new Rwkv7(binder.config(), binder.ops(), max_rows));
  FULMAR_TRY(bind_stack(binder, model->stack_, time_mix, channel_mix, loaded));
  return model;
}

void Rwkv7::step(const Batch& batch, const State& state, Tensor hidden, Tensor logits) {
  const auto rows = [&](Tensor tensor) { return tensor.slice_rows(0, batch.rows); };
  const Projected7& p = projected_;
  const Block7Work work{
      {rows(mixed_[0]), rows(mixed_[1]), rows(mixed_[2]), rows(mixed_[3]), rows(mixed_[4]), rows(mixed_[5])},
      rows(v_first_),
      v_first_wide_,
      {rows(p.r), rows(p.k), rows(p.v), rows(p.g), rows(p.u), rows(p.kk), rows(p.alpha)},
      rows(y_),
      rows(pending_)};
  const Tensor x = rows(x_);
  Tensor pending;
  ops().embed(batch, stack_.embedding, x);
  for (size_t i = 0; i < stack_.layers.size(); i++) {
    const auto& [att, ffn] = stack_.layers[i];
    const auto layer = static_cast<int64_t>(i);
    pending = ops().block7(batch, stack_.embedding, {att, ffn, i == 0}, x, pending, work,
                           {state.att_shift(layer), state.wkv(layer), state.ffn_shift(layer)});
  }
  if (batch.wanted > 0) ops().read_out(batch, stack_.head, x, pending, hidden, logits);
}

}  // namespace fulmar
