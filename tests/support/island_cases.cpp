// Every island of a backend against its default composition of the same backend's primitives.
#include <gtest/gtest.h>

#include <array>

#include "support/ops_cases.h"
#include "support/ops_rig.h"

namespace fulmar::support {

namespace {

struct IslandShape {
  const char* name;
  int64_t n_head, head_size, n_ffn, rank;
  DType dtype;
  std::vector<int32_t> lengths;

  int64_t width() const { return n_head * head_size; }
};

const std::vector<IslandShape>& island_shapes() {
  static const std::vector<IslandShape> shapes = {
      {"one_row", 2, 64, 256, 32, DType::bf16, {1}},
      {"decode_of_five", 4, 64, 512, 32, DType::f16, {1, 1, 1, 1, 1}},
      {"ragged", 3, 16, 96, 8, DType::f32, {3, 1, 17, 16}},
      {"prefill", 2, 64, 256, 24, DType::bf16, {70}},
  };
  return shapes;
}

LowRank low_rank(OpsRig& rig, const IslandShape& shape, int64_t rank, bool biased) {
  const int64_t c = shape.width();
  LowRank factors{rig.weight(rank, c, shape.dtype, WeightRole::low_rank, true).weight,
                  rig.weight(c, rank, shape.dtype, WeightRole::low_rank, true).weight,
                  {}};
  if (biased) factors.bias = rig.vector(1, c).tensor;
  return factors;
}

TimeMix7 time_mix7(OpsRig& rig, const IslandShape& shape, bool first_block) {
  const int64_t c = shape.width();
  const auto square = [&] { return rig.weight(c, c, shape.dtype, WeightRole::projection).weight; };
  TimeMix7 att;
  att.n_head = shape.n_head;
  att.head_size = shape.head_size;
  att.ln1 = rig.norm(c).norm;
  att.mix = rig.vector(6, c, 0, 1).tensor;
  att.receptance = square();
  att.key = square();
  att.value = square();
  att.output = square();
  att.w = low_rank(rig, shape, shape.rank, true);
  att.a = low_rank(rig, shape, shape.rank, true);
  if (!first_block) att.v = low_rank(rig, shape, shape.rank / 2, true);
  att.g = low_rank(rig, shape, shape.rank * 2, false);
  att.k_k = rig.vector(1, c).tensor;
  att.k_a = rig.vector(1, c).tensor;
  att.r_k = rig.vector(1, c).tensor;
  att.ln_x = rig.norm(c).norm;
  return att;
}

ChannelMix7 channel_mix7_weights(OpsRig& rig, const IslandShape& shape, bool deep) {
  const int64_t c = shape.width(), f = shape.n_ffn, d = 8;
  ChannelMix7 ffn;
  ffn.ln2 = rig.norm(c).norm;
  ffn.mix = rig.vector(1, c, 0, 1).tensor;
  ffn.key = rig.weight(f, c, shape.dtype, WeightRole::ffn_key).weight;
  ffn.value = rig.weight(c, f, shape.dtype, WeightRole::ffn_value).weight;
  if (!deep) return ffn;
  ffn.deep_embed = true;
  ffn.deep_rank = d;
  ffn.s_emb = rig.weight(8, d * d, shape.dtype, WeightRole::embedding).weight;
  ffn.s_emb_x = rig.weight(d * d, c, shape.dtype, WeightRole::low_rank).weight;
  ffn.s1 = rig.weight(d, c, shape.dtype, WeightRole::low_rank, true).weight;
  ffn.s2 = rig.weight(f, d, shape.dtype, WeightRole::low_rank, true).weight;
  ffn.s0 = rig.vector(1, f).tensor;
  return ffn;
}

struct Layer7 {
  TimeMix7 att;
  ChannelMix7 ffn;
};

Layer7 layer7(OpsRig& rig, const IslandShape& shape, bool first_block, bool deep) {
  Layer7 layer{time_mix7(rig, shape, first_block), channel_mix7_weights(rig, shape, deep)};
  const Status status = rig.ops().finish_layer(layer.att, layer.ffn);
  if (!status.ok()) ADD_FAILURE() << status.error().text;
  return layer;
}

TimeMix6 time_mix6(OpsRig& rig, const IslandShape& shape) {
  const int64_t c = shape.width();
  const auto square = [&] { return rig.weight(c, c, shape.dtype, WeightRole::projection).weight; };
  TimeMix6 att;
  att.n_head = shape.n_head;
  att.head_size = shape.head_size;
  att.ln1 = rig.norm(c).norm;
  att.mix_x = rig.vector(1, c, 0, 1).tensor;
  att.mix = rig.vector(5, c, 0, 1).tensor;
  att.mix_w1 = rig.weight(5 * shape.rank, c, shape.dtype, WeightRole::low_rank, true).weight;
  for (Weight& w2 : att.mix_w2)
    w2 = rig.weight(c, shape.rank, shape.dtype, WeightRole::low_rank, true).weight;
  att.receptance = square();
  att.key = square();
  att.value = square();
  att.gate = square();
  att.output = square();
  att.w = low_rank(rig, shape, shape.rank, true);
  att.u = rig.vector(1, c).tensor;
  att.ln_x = rig.norm(c).norm;
  return att;
}

// What one run of an island leaves behind: the tensors it wrote, and the states.
struct Outcome {
  std::vector<Doubles> tensors;
  Doubles state;
};

// Runs the island as the backend has it and in its default body, each on inputs of its own that hold the same
// numbers, and compares what they leave.
class Comparison {
 public:
  Comparison(Ops& ops, const IslandShape& shape) : rig_(ops), shape_(shape) {
    rig_.set_tokens_below(8);
    batch_ = rig_.begin(shape.lengths, shape.n_head, shape.head_size);
  }

  OpsRig& rig() { return rig_; }
  const Batch& batch() const { return batch_; }

  // A tensor that the island may change.
  size_t inout(const Made& made) {
    inputs_.push_back(made);
    return inputs_.size() - 1;
  }
  size_t activations(int64_t cols, double low = -1, double high = 1) {
    return inout(rig_.tensor(batch_.rows, cols, low, high));
  }
  size_t residual() {
    return inout(rig_.tensor(batch_.rows, shape_.width(), rig_.ops().residual_dtype(), -2, 2));
  }

  using Tensors = std::vector<Tensor>;
  void expect_equal(const std::function<void(const Tensors&)>& overridden,
                    const std::function<void(const Tensors&)>& composed) {
    const std::vector<std::byte> slots = rig_.read_all_slots();
    const Outcome got = run(overridden);
    rig_.write_all_slots(slots);
    const Outcome want = run(composed);
    for (size_t i = 0; i < want.tensors.size(); i++) {
      expect_close(got.tensors[i], want.tensors[i], rig_.ops().activation_dtype(),
                   "tensor " + std::to_string(i));
    }
    expect_close(got.state, want.state, rig_.ops().activation_dtype(), "state");
  }

 private:
  Outcome run(const std::function<void(const Tensors&)>& island) {
    Tensors tensors;
    for (const Made& input : inputs_) tensors.push_back(rig_.same(input).tensor);
    island(tensors);
    rig_.ops().synchronise();
    Outcome outcome;
    for (const Tensor& tensor : tensors) outcome.tensors.push_back(rig_.read(tensor));
    const StateLayout& layout = rig_.state().layout;
    for (int64_t slot = 0; slot < rig_.state().slots; slot++) {
      for (const Doubles& part : {rig_.read(rig_.state().att_shift(0), slot, layout.n_embd),
                                  rig_.read(rig_.state().ffn_shift(0), slot, layout.n_embd),
                                  rig_.read(rig_.state().wkv(0), slot, layout.n_embd * layout.head_size)}) {
        outcome.state.insert(outcome.state.end(), part.begin(), part.end());
      }
    }
    return outcome;
  }

  OpsRig rig_;
  const IslandShape& shape_;
  Batch batch_;
  std::vector<Made> inputs_;
};

using Tensors = Comparison::Tensors;

template <size_t N>
std::array<Tensor, N> first_of(const Tensors& tensors, size_t from) {
  std::array<Tensor, N> out;
  std::copy_n(tensors.begin() + static_cast<ptrdiff_t>(from), N, out.begin());
  return out;
}

void enter7(Ops& ops, const IslandShape& shape, bool pending) {
  Comparison comparison(ops, shape);
  const TimeMix7 att = layer7(comparison.rig(), shape, false, false).att;
  comparison.residual();
  for (int i = 0; i < 7; i++) comparison.activations(shape.width());
  const StateField carry = comparison.rig().state().att_shift(0);
  const auto addend = [=](const Tensors& t) { return pending ? t[1] : Tensor{}; };
  comparison.expect_equal(
      [&](const Tensors& t) {
        ops.enter7(comparison.batch(), att, t[0], addend(t), carry, first_of<6>(t, 2));
      },
      [&](const Tensors& t) {
        ops.Ops::enter7(comparison.batch(), att, t[0], addend(t), carry, first_of<6>(t, 2));
      });
}

void project7(Ops& ops, const IslandShape& shape, bool first_block) {
  Comparison comparison(ops, shape);
  const TimeMix7 att = layer7(comparison.rig(), shape, first_block, false).att;
  for (int i = 0; i < 14; i++) comparison.activations(shape.width());
  const auto projected = [](const Tensors& t) {
    return Projected7{t[7], t[8], t[9], t[10], t[11], t[12], t[13]};
  };
  comparison.expect_equal(
      [&](const Tensors& t) {
        ops.project7(comparison.batch(), att, first_of<6>(t, 0), first_block, t[6], projected(t));
      },
      [&](const Tensors& t) {
        ops.Ops::project7(comparison.batch(), att, first_of<6>(t, 0), first_block, t[6], projected(t));
      });
}

void recur_and_leave7(Ops& ops, const IslandShape& shape) {
  Comparison comparison(ops, shape);
  const TimeMix7 att = layer7(comparison.rig(), shape, false, false).att;
  for (int i = 0; i < 9; i++) comparison.activations(shape.width(), -0.3, 0.3);
  const auto projected = [](const Tensors& t) {
    return Projected7{t[0], t[1], t[2], t[3], t[4], t[5], t[6]};
  };
  const StateField wkv = comparison.rig().state().wkv(0);
  // y is used up by leave7, so only what is left in `pending` counts.
  const auto forget = [&](Tensor y) {
    const std::vector<std::byte> zeros(static_cast<size_t>(y.count()) * size_of(y.dtype));
    ops.write(y.data, zeros.data(), zeros.size());
  };
  comparison.expect_equal(
      [&](const Tensors& t) {
        ops.recur7(comparison.batch(), att, projected(t), wkv, t[7]);
        ops.leave7(comparison.batch(), att, projected(t), t[7], t[8]);
        forget(t[7]);
      },
      [&](const Tensors& t) {
        ops.Ops::recur7(comparison.batch(), att, projected(t), wkv, t[7]);
        ops.Ops::leave7(comparison.batch(), att, projected(t), t[7], t[8]);
        forget(t[7]);
      });
}

void channel_mix7(Ops& ops, const IslandShape& shape, bool deep) {
  Comparison comparison(ops, shape);
  OpsRig& rig = comparison.rig();
  const int64_t c = shape.width();
  const Embedding embedding{rig.weight(8, c, shape.dtype, WeightRole::embedding).weight, rig.norm(c).norm};
  const ChannelMix7 ffn = layer7(rig, shape, false, deep).ffn;
  comparison.residual();
  comparison.activations(c);
  const StateField carry = rig.state().ffn_shift(0);
  comparison.expect_equal(
      [&](const Tensors& t) { ops.channel_mix7(comparison.batch(), embedding, ffn, t[0], t[1], carry); },
      [&](const Tensors& t) {
        ops.Ops::channel_mix7(comparison.batch(), embedding, ffn, t[0], t[1], carry);
      });
}

ChannelMix6 channel_mix6_weights(OpsRig& rig, const IslandShape& shape) {
  const int64_t c = shape.width(), f = shape.n_ffn;
  ChannelMix6 ffn;
  ffn.ln2 = rig.norm(c).norm;
  ffn.mix_k = rig.vector(1, c, 0, 1).tensor;
  ffn.mix_r = rig.vector(1, c, 0, 1).tensor;
  ffn.key = rig.weight(f, c, shape.dtype, WeightRole::ffn_key).weight;
  ffn.value = rig.weight(c, f, shape.dtype, WeightRole::ffn_value).weight;
  ffn.receptance = rig.weight(c, c, shape.dtype, WeightRole::projection).weight;
  return ffn;
}

struct Layer6 {
  TimeMix6 att;
  ChannelMix6 ffn;
};

Layer6 layer6(OpsRig& rig, const IslandShape& shape) {
  Layer6 layer{time_mix6(rig, shape), channel_mix6_weights(rig, shape)};
  const Status status = rig.ops().finish_layer(layer.att, layer.ffn);
  if (!status.ok()) ADD_FAILURE() << status.error().text;
  return layer;
}

void enter6(Ops& ops, const IslandShape& shape) {
  Comparison comparison(ops, shape);
  const TimeMix6 att = layer6(comparison.rig(), shape).att;
  comparison.residual();
  for (int i = 0; i < 6; i++) comparison.activations(shape.width());
  const StateField carry = comparison.rig().state().att_shift(0);
  comparison.expect_equal(
      [&](const Tensors& t) { ops.enter6(comparison.batch(), att, t[0], t[1], carry, first_of<5>(t, 2)); },
      [&](const Tensors& t) {
        ops.Ops::enter6(comparison.batch(), att, t[0], t[1], carry, first_of<5>(t, 2));
      });
}

void project_and_leave6(Ops& ops, const IslandShape& shape) {
  Comparison comparison(ops, shape);
  const TimeMix6 att = layer6(comparison.rig(), shape).att;
  for (int i = 0; i < 12; i++) comparison.activations(shape.width());
  const auto projected = [](const Tensors& t) { return Projected6{t[5], t[6], t[7], t[8], t[9]}; };
  const auto forget = [&](Tensor y) {
    const std::vector<std::byte> zeros(static_cast<size_t>(y.count()) * size_of(y.dtype));
    ops.write(y.data, zeros.data(), zeros.size());
  };
  comparison.expect_equal(
      [&](const Tensors& t) {
        ops.project6(comparison.batch(), att, first_of<5>(t, 0), projected(t));
        ops.leave6(comparison.batch(), att, projected(t), t[10], t[11]);
        forget(t[10]);
      },
      [&](const Tensors& t) {
        ops.Ops::project6(comparison.batch(), att, first_of<5>(t, 0), projected(t));
        ops.Ops::leave6(comparison.batch(), att, projected(t), t[10], t[11]);
        forget(t[10]);
      });
}

void channel_mix6(Ops& ops, const IslandShape& shape) {
  Comparison comparison(ops, shape);
  OpsRig& rig = comparison.rig();
  const ChannelMix6 ffn = layer6(rig, shape).ffn;
  comparison.residual();
  comparison.activations(shape.width());
  const StateField carry = rig.state().ffn_shift(0);
  comparison.expect_equal(
      [&](const Tensors& t) { ops.channel_mix6(comparison.batch(), ffn, t[0], t[1], carry); },
      [&](const Tensors& t) { ops.Ops::channel_mix6(comparison.batch(), ffn, t[0], t[1], carry); });
}

void read_out(Ops& ops, const IslandShape& shape) {
  Comparison comparison(ops, shape);
  OpsRig& rig = comparison.rig();
  constexpr int64_t kVocab = 72;
  const Head head{rig.norm(shape.width()).norm,
                  rig.weight(kVocab, shape.width(), shape.dtype, WeightRole::head).weight};
  const int64_t wanted = comparison.batch().wanted;
  comparison.residual();
  comparison.activations(shape.width());
  comparison.inout(rig.tensor(wanted, shape.width()));
  comparison.inout(rig.tensor(wanted, kVocab, DType::f32, -1, 1));
  comparison.expect_equal(
      [&](const Tensors& t) { ops.read_out(comparison.batch(), head, t[0], t[1], t[2], t[3]); },
      [&](const Tensors& t) { ops.Ops::read_out(comparison.batch(), head, t[0], t[1], t[2], t[3]); });
}

}  // namespace

std::vector<OpsCase> island_cases() {
  using Run = std::function<void(Ops&, const IslandShape&)>;
  const std::pair<const char*, Run> islands[] = {
      {"enter7", [](Ops& ops, const IslandShape& s) { enter7(ops, s, true); }},
      {"enter7_first", [](Ops& ops, const IslandShape& s) { enter7(ops, s, false); }},
      {"project7", [](Ops& ops, const IslandShape& s) { project7(ops, s, false); }},
      {"project7_first", [](Ops& ops, const IslandShape& s) { project7(ops, s, true); }},
      {"recur_and_leave7", recur_and_leave7},
      {"channel_mix7", [](Ops& ops, const IslandShape& s) { channel_mix7(ops, s, false); }},
      {"channel_mix7_deep", [](Ops& ops, const IslandShape& s) { channel_mix7(ops, s, true); }},
      {"enter6", enter6},
      {"project_and_leave6", project_and_leave6},
      {"channel_mix6", channel_mix6},
      {"read_out", read_out}};
  std::vector<OpsCase> cases;
  for (const auto& island : islands) {
    for (const IslandShape& shape : island_shapes()) {
      const Run run = island.second;
      cases.push_back(
          {std::string(island.first) + "_" + shape.name, [run, &shape](Ops& ops) { run(ops, shape); }});
    }
  }
  return cases;
}

}  // namespace fulmar::support
