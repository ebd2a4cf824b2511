#include "support/islands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace fulmar::support {

Stage::Stage(Ops& ops, const IslandShape& shape, DType rounded_to) : rig_(ops), shape_(shape) {
  rig_.set_rounded_to(rounded_to);
  rig_.set_tokens_below(8);
  batch_ = rig_.begin(shape.lengths, shape.n_head, shape.head_size);
}

void Stage::give_rows(int count, double low, double high) {
  for (int i = 0; i < count; i++) give(rig_.tensor(batch_.rows, shape_.width(), low, high));
}

void Stage::give_residual() { give(rig_.tensor(batch_.rows, shape_.width(), ops().residual_dtype(), -2, 2)); }

Stage::Outcome Stage::run(const std::function<void(const Tensors&)>& island) {
  const std::vector<std::byte> slots = rig_.read_all_slots();
  Tensors tensors;
  for (const Made& input : inputs_) tensors.push_back(rig_.same(input).tensor);
  island(tensors);
  ops().synchronise();
  Outcome outcome;
  // A backend may have padded the step; the rows past the caller's mean nothing.
  const auto rows = static_cast<int64_t>(rig_.tokens().size());
  for (size_t i = 0; i < tensors.size(); i++) {
    const bool padded = tensors[i].rows == batch_.rows;
    outcome.emplace_back("tensor " + std::to_string(i),
                         rig_.read(padded ? tensors[i].slice_rows(0, rows) : tensors[i]));
  }
  const State& state = rig_.state();
  const int64_t c = state.layout.n_embd;
  for (int64_t slot = 0; slot + 1 < state.slots; slot++) {
    const std::string of = " of slot " + std::to_string(slot);
    outcome.emplace_back("att_shift" + of, rig_.read(state.att_shift(0), slot, c));
    outcome.emplace_back("ffn_shift" + of, rig_.read(state.ffn_shift(0), slot, c));
    outcome.emplace_back("wkv" + of, rig_.read(state.wkv(0), slot, c * state.layout.head_size));
  }
  rig_.write_all_slots(slots);
  return outcome;
}

void expect_equal(const Stage::Outcome& got, const Stage::Outcome& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) {
    expect_close(got[i].second, want[i].second, tolerance, got[i].first);
  }
}

namespace {

using Tensors = Stage::Tensors;

LowRank low_rank(Stage& stage, int64_t rank, bool biased) {
  OpsRig& rig = stage.rig();
  const int64_t c = stage.shape().width();
  const DType dtype = stage.shape().dtype;
  LowRank factors{rig.bare_weight(rank, c, dtype, WeightRole::low_rank, true),
                  rig.bare_weight(c, rank, dtype, WeightRole::low_rank, true),
                  {}};
  if (biased) factors.bias = rig.vector(1, c).tensor;
  return factors;
}

Weight square(Stage& stage) {
  const int64_t c = stage.shape().width();
  return stage.rig().bare_weight(c, c, stage.shape().dtype, WeightRole::projection);
}

TimeMix7 time_mix7(Stage& stage, bool first_block) {
  OpsRig& rig = stage.rig();
  const IslandShape& shape = stage.shape();
  const int64_t c = shape.width();
  TimeMix7 att;
  att.n_head = shape.n_head;
  att.head_size = shape.head_size;
  att.ln1 = rig.norm(c).norm;
  att.mix = rig.vector(6, c, 0, 1).tensor;
  att.receptance = square(stage);
  att.key = square(stage);
  att.value = square(stage);
  att.output = square(stage);
  att.w = low_rank(stage, shape.rank, true);
  att.a = low_rank(stage, shape.rank, true);
  if (!first_block) att.v = low_rank(stage, shape.rank / 2, true);
  att.g = low_rank(stage, shape.rank * 2, false);
  att.k_k = rig.vector(1, c).tensor;
  att.k_a = rig.vector(1, c).tensor;
  att.r_k = rig.vector(1, c).tensor;
  att.ln_x = rig.norm(c).norm;
  return att;
}

ChannelMix7 channel_mix7_weights(Stage& stage, bool deep) {
  OpsRig& rig = stage.rig();
  const IslandShape& shape = stage.shape();
  const int64_t c = shape.width(), f = shape.n_ffn, d = 8;
  ChannelMix7 ffn;
  ffn.ln2 = rig.norm(c).norm;
  ffn.mix = rig.vector(1, c, 0, 1).tensor;
  ffn.key = rig.bare_weight(f, c, shape.dtype, WeightRole::ffn_key);
  ffn.value = rig.bare_weight(c, f, shape.dtype, WeightRole::ffn_value);
  if (!deep) return ffn;
  ffn.deep_embed = true;
  ffn.deep_rank = d;
  ffn.s_emb = rig.bare_weight(8, d * d, shape.dtype, WeightRole::embedding);
  ffn.s_emb_x = rig.bare_weight(d * d, c, shape.dtype, WeightRole::low_rank);
  ffn.s1 = rig.bare_weight(d, c, shape.dtype, WeightRole::low_rank, true);
  ffn.s2 = rig.bare_weight(f, d, shape.dtype, WeightRole::low_rank, true);
  ffn.s0 = rig.vector(1, f).tensor;
  return ffn;
}

TimeMix6 time_mix6(Stage& stage) {
  OpsRig& rig = stage.rig();
  const IslandShape& shape = stage.shape();
  const int64_t c = shape.width();
  TimeMix6 att;
  att.n_head = shape.n_head;
  att.head_size = shape.head_size;
  att.ln1 = rig.norm(c).norm;
  att.mix_x = rig.vector(1, c, 0, 1).tensor;
  att.mix = rig.vector(5, c, 0, 1).tensor;
  att.mix_w1 = rig.bare_weight(5 * shape.rank, c, shape.dtype, WeightRole::low_rank, true);
  for (Weight& w2 : att.mix_w2) w2 = rig.bare_weight(c, shape.rank, shape.dtype, WeightRole::low_rank, true);
  att.receptance = square(stage);
  att.key = square(stage);
  att.value = square(stage);
  att.gate = square(stage);
  att.output = square(stage);
  att.w = low_rank(stage, shape.rank, true);
  att.u = rig.vector(1, c).tensor;
  att.ln_x = rig.norm(c).norm;
  return att;
}

ChannelMix6 channel_mix6_weights(Stage& stage) {
  OpsRig& rig = stage.rig();
  const IslandShape& shape = stage.shape();
  const int64_t c = shape.width(), f = shape.n_ffn;
  ChannelMix6 ffn;
  ffn.ln2 = rig.norm(c).norm;
  ffn.mix_k = rig.vector(1, c, 0, 1).tensor;
  ffn.mix_r = rig.vector(1, c, 0, 1).tensor;
  ffn.key = rig.bare_weight(f, c, shape.dtype, WeightRole::ffn_key);
  ffn.value = rig.bare_weight(c, f, shape.dtype, WeightRole::ffn_value);
  ffn.receptance = square(stage);
  return ffn;
}

template <class Att, class Ffn>
std::pair<Att, Ffn> finished(Stage& stage, Att att, Ffn ffn) {
  const Status status = stage.ops().finish_layer(att, ffn);
  if (!status.ok()) ADD_FAILURE() << status.error().text;
  return {att, ffn};
}
auto layer7(Stage& stage, bool first_block, bool deep) {
  TimeMix7 att = time_mix7(stage, first_block);
  return finished(stage, att, channel_mix7_weights(stage, deep));
}
auto layer6(Stage& stage) {
  TimeMix6 att = time_mix6(stage);
  return finished(stage, att, channel_mix6_weights(stage));
}

template <size_t N>
std::array<Tensor, N> part(const Tensors& tensors, size_t from) {
  std::array<Tensor, N> out;
  std::copy_n(tensors.begin() + static_cast<ptrdiff_t>(from), N, out.begin());
  return out;
}
Projected7 projected7(const Tensors& t, size_t from) {
  return {t[from], t[from + 1], t[from + 2], t[from + 3], t[from + 4], t[from + 5], t[from + 6]};
}
Projected6 projected6(const Tensors& t, size_t from) {
  return {t[from], t[from + 1], t[from + 2], t[from + 3], t[from + 4]};
}

// For working memory, whose contents mean nothing afterwards.
void forget(Ops& ops, Tensor y) {
  const std::vector<std::byte> zeros(static_cast<size_t>(y.count()) * size_of(y.dtype));
  ops.write(y.data, zeros.data(), zeros.size());
}

// ---- the islands; `stage` outlives what they return

Island::Run enter7(Stage& stage, bool pending) {
  const TimeMix7 att = layer7(stage, false, false).first;
  stage.give_residual();
  stage.give_rows(7);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField carry = stage.rig().state().att_shift(0);
    const Tensor addend = pending ? t[1] : Tensor{};
    if (body == Body::own) return ops.enter7(stage.batch(), att, t[0], addend, carry, part<6>(t, 2));
    ops.Ops::enter7(stage.batch(), att, t[0], addend, carry, part<6>(t, 2));
  };
}

Island::Run project7(Stage& stage, bool first_block) {
  const TimeMix7 att = layer7(stage, first_block, false).first;
  stage.give_rows(14);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const Projected7 p = projected7(t, 7);
    if (body == Body::own) return ops.project7(stage.batch(), att, part<6>(t, 0), first_block, t[6], p);
    ops.Ops::project7(stage.batch(), att, part<6>(t, 0), first_block, t[6], p);
  };
}

// Inputs in the ranges that project7 leaves: a unit key per head, a rate between 0 and 1.
void give_projected7(Stage& stage) {
  const auto unit = 1.7 / std::sqrt(static_cast<double>(stage.shape().head_size));
  stage.give_rows(4);               // r, k, v, g
  stage.give_rows(1, -8, 4);        // u
  stage.give_rows(1, -unit, unit);  // kk
  stage.give_rows(1, 0, 1);         // alpha
  stage.give_rows(2);               // y, pending
}

Island::Run recur7(Stage& stage) {
  const TimeMix7 att = layer7(stage, false, false).first;
  give_projected7(stage);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField wkv = stage.rig().state().wkv(0);
    if (body == Body::own) return ops.recur7(stage.batch(), att, projected7(t, 0), wkv, t[7]);
    ops.Ops::recur7(stage.batch(), att, projected7(t, 0), wkv, t[7]);
  };
}

Island::Run leave7(Stage& stage) {
  const TimeMix7 att = layer7(stage, false, false).first;
  give_projected7(stage);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    body == Body::own ? ops.leave7(stage.batch(), att, projected7(t, 0), t[7], t[8])
                      : ops.Ops::leave7(stage.batch(), att, projected7(t, 0), t[7], t[8]);
    forget(ops, t[7]);
  };
}

Island::Run attend7(Stage& stage) {
  const TimeMix7 att = layer7(stage, false, false).first;
  give_projected7(stage);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField wkv = stage.rig().state().wkv(0);
    if (body == Body::own) {
      ops.attend7(stage.batch(), att, projected7(t, 0), wkv, t[7], t[8]);
    } else {
      ops.Ops::recur7(stage.batch(), att, projected7(t, 0), wkv, t[7]);
      ops.Ops::leave7(stage.batch(), att, projected7(t, 0), t[7], t[8]);
    }
    forget(ops, t[7]);
  };
}

Island::Run channel_mix7(Stage& stage, bool deep) {
  OpsRig& rig = stage.rig();
  const int64_t c = stage.shape().width();
  const Embedding embedding{rig.bare_weight(8, c, stage.shape().dtype, WeightRole::embedding),
                            rig.norm(c).norm};
  const ChannelMix7 ffn = layer7(stage, false, deep).second;
  stage.give_residual();
  stage.give_rows(1);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField carry = stage.rig().state().ffn_shift(0);
    if (body == Body::own) return ops.channel_mix7(stage.batch(), embedding, ffn, t[0], t[1], carry);
    ops.Ops::channel_mix7(stage.batch(), embedding, ffn, t[0], t[1], carry);
  };
}

Island::Run enter6(Stage& stage) {
  const TimeMix6 att = layer6(stage).first;
  stage.give_residual();
  stage.give_rows(6);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField carry = stage.rig().state().att_shift(0);
    if (body == Body::own) return ops.enter6(stage.batch(), att, t[0], t[1], carry, part<5>(t, 2));
    ops.Ops::enter6(stage.batch(), att, t[0], t[1], carry, part<5>(t, 2));
  };
}

Island::Run project6(Stage& stage) {
  const TimeMix6 att = layer6(stage).first;
  stage.give_rows(10);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    if (body == Body::own) return ops.project6(stage.batch(), att, part<5>(t, 0), projected6(t, 5));
    ops.Ops::project6(stage.batch(), att, part<5>(t, 0), projected6(t, 5));
  };
}

// Decays from almost none to almost all, which have no lower bound in RWKV-6.
void give_projected6(Stage& stage) {
  stage.give_rows(4);         // r, k, v, g
  stage.give_rows(1, -7, 5);  // u
  stage.give_rows(2);         // y, pending
}

Island::Run recur6(Stage& stage) {
  const TimeMix6 att = layer6(stage).first;
  give_projected6(stage);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField wkv = stage.rig().state().wkv(0);
    if (body == Body::own) return ops.recur6(stage.batch(), att, projected6(t, 0), wkv, t[5]);
    ops.Ops::recur6(stage.batch(), att, projected6(t, 0), wkv, t[5]);
  };
}

Island::Run leave6(Stage& stage) {
  const TimeMix6 att = layer6(stage).first;
  give_projected6(stage);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    body == Body::own ? ops.leave6(stage.batch(), att, projected6(t, 0), t[5], t[6])
                      : ops.Ops::leave6(stage.batch(), att, projected6(t, 0), t[5], t[6]);
    forget(ops, t[5]);
  };
}

Island::Run attend6(Stage& stage) {
  const TimeMix6 att = layer6(stage).first;
  give_projected6(stage);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField wkv = stage.rig().state().wkv(0);
    if (body == Body::own) {
      ops.attend6(stage.batch(), att, projected6(t, 0), wkv, t[5], t[6]);
    } else {
      ops.Ops::recur6(stage.batch(), att, projected6(t, 0), wkv, t[5]);
      ops.Ops::leave6(stage.batch(), att, projected6(t, 0), t[5], t[6]);
    }
    forget(ops, t[5]);
  };
}

Island::Run channel_mix6(Stage& stage) {
  const ChannelMix6 ffn = layer6(stage).second;
  stage.give_residual();
  stage.give_rows(1);
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    const StateField carry = stage.rig().state().ffn_shift(0);
    if (body == Body::own) return ops.channel_mix6(stage.batch(), ffn, t[0], t[1], carry);
    ops.Ops::channel_mix6(stage.batch(), ffn, t[0], t[1], carry);
  };
}

Island::Run read_out(Stage& stage) {
  OpsRig& rig = stage.rig();
  constexpr int64_t kVocab = 72;
  const int64_t c = stage.shape().width(), wanted = stage.batch().wanted;
  const Head head{rig.norm(c).norm, rig.bare_weight(kVocab, c, stage.shape().dtype, WeightRole::head)};
  stage.give_residual();
  stage.give_rows(1);
  stage.give(rig.tensor(wanted, c));
  stage.give(rig.tensor(wanted, kVocab, DType::f32, -1, 1));
  return [=, &stage](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    if (body == Body::own) return ops.read_out(stage.batch(), head, t[0], t[1], t[2], t[3]);
    ops.Ops::read_out(stage.batch(), head, t[0], t[1], t[2], t[3]);
  };
}

}  // namespace

const std::vector<Island>& islands() {
  static const std::vector<Island> list = {
      {"enter7", [](Stage& s) { return enter7(s, true); }},
      {"enter7_first", [](Stage& s) { return enter7(s, false); }},
      {"project7", [](Stage& s) { return project7(s, false); }},
      {"project7_first", [](Stage& s) { return project7(s, true); }},
      {"recur7", recur7},
      {"leave7", leave7},
      {"attend7", attend7},
      {"channel_mix7", [](Stage& s) { return channel_mix7(s, false); }},
      {"channel_mix7_deep", [](Stage& s) { return channel_mix7(s, true); }},
      {"enter6", enter6},
      {"project6", project6},
      {"recur6", recur6},
      {"leave6", leave6},
      {"attend6", attend6},
      {"channel_mix6", channel_mix6},
      {"read_out", read_out}};
  return list;
}

}  // namespace fulmar::support
