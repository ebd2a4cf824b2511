// Every primitive against plain double-precision loops, over odd shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/ops_cases.h"
#include "support/ops_rig.h"

namespace fulmar::support {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct HeadShape {
  int64_t n_head, head_size;
  int64_t width() const { return n_head * head_size; }
};
const HeadShape kHeadShapes[] = {{1, 64}, {4, 64}, {8, 8}, {3, 16}};
const std::vector<std::vector<int32_t>> kLengths = {{1}, {17}, {1, 1, 1, 1, 1}, {3, 1, 15, 16}, {300}};

std::string text(const std::vector<int32_t>& lengths) {
  std::string out;
  for (const int32_t length : lengths) {
    if (!out.empty()) out += '_';
    out += std::to_string(length);
  }
  return out;
}

std::string text(const HeadShape& shape) {
  return std::to_string(shape.n_head) + "x" + std::to_string(shape.head_size);
}

int64_t sum(const std::vector<int32_t>& lengths) {
  int64_t total = 0;
  for (const int32_t length : lengths) total += length;
  return total;
}

void normalise(const double* x, const Doubles& weight, const Doubles& bias, size_t first, size_t n,
               double eps, double* out) {
  double mean = 0, variance = 0;
  for (size_t i = 0; i < n; i++) mean += x[i] / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) {
    out[i] = (x[i] - mean) / std::sqrt(variance + eps) * weight[first + i] + bias[first + i];
  }
}

using Cases = std::vector<OpsCase>;

void add_norms(Cases& cases) {
  for (const int64_t cols : {8, 64, 200, 1024}) {
    cases.push_back({"norm_" + std::to_string(cols), [=](Ops& ops) {
                       OpsRig rig(ops);
                       const Made x = rig.tensor(7, cols, ops.residual_dtype(), -3, 5);
                       const MadeNorm norm = rig.norm(cols);
                       const Tensor out = rig.empty(7, cols);
                       ops.norm(x.tensor, norm.norm, out);
                       Doubles want(x.values.size());
                       const auto n = static_cast<size_t>(cols);
                       for (size_t row = 0; row < 7; row++) {
                         normalise(&x.values[row * n], norm.weight, norm.bias, 0, n, 1e-5, &want[row * n]);
                       }
                       expect_close(rig.read(out), want, ops.activation_dtype(), "norm");
                     }});
  }
  for (const HeadShape shape : kHeadShapes) {
    cases.push_back({"head_norm_" + text(shape), [=](Ops& ops) {
                       OpsRig rig(ops);
                       // Small numbers: the epsilon is part of the model there.
                       const Made y = rig.tensor(9, shape.width(), -0.02, 0.03);
                       const MadeNorm norm = rig.norm(shape.width());
                       ops.head_norm(shape.n_head, norm.norm, y.tensor);
                       Doubles want(y.values.size());
                       const auto n = static_cast<size_t>(shape.head_size);
                       for (size_t at = 0; at < want.size(); at += n) {
                         const size_t first = at % static_cast<size_t>(shape.width());
                         normalise(&y.values[at], norm.weight, norm.bias, first, n, 64e-5, &want[at]);
                       }
                       expect_close(rig.read(y.tensor), want, ops.activation_dtype(), "head_norm");
                     }});
  }
}

void run_embed_without_norm(Ops& ops) {
  OpsRig rig(ops);
  constexpr int64_t kVocab = 11, kCols = 72;
  const MadeWeight table = rig.weight(kVocab, kCols, DType::f32, WeightRole::embedding);
  rig.set_tokens_below(kVocab);
  const Batch batch = rig.begin({5, 1, 3}, 1, kCols);
  const Tensor out = rig.empty(batch.rows, kCols, ops.residual_dtype());
  ops.embed(batch, {table.weight, {}}, out.slice_rows(0, batch.rows));
  Doubles want;
  for (const int32_t token : rig.tokens()) {
    const auto row = table.values.begin() + token * kCols;
    want.insert(want.end(), row, row + kCols);
  }
  Doubles got = rig.read(out);
  got.resize(want.size());
  expect_close(got, want, ops.activation_dtype(), "embed without ln0");
}

void add_embed(Cases& cases) {
  cases.push_back({"embed_without_norm", run_embed_without_norm});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(
        {"embed_" + std::string(name_of(dtype)), [=](Ops& ops) {
           OpsRig rig(ops);
           constexpr int64_t kVocab = 11, kCols = 72;
           const MadeWeight table = rig.weight(kVocab, kCols, dtype, WeightRole::embedding);
           const MadeNorm ln0 = rig.norm(kCols);
           rig.set_tokens_below(kVocab);
           const Batch batch = rig.begin({5, 1, 3}, 1, kCols);
           const Tensor out = rig.empty(batch.rows, kCols, ops.residual_dtype());
           ops.embed(batch, {table.weight, ln0.norm}, out.slice_rows(0, batch.rows));
           Doubles want(rig.tokens().size() * kCols);
           for (size_t t = 0; t < rig.tokens().size(); t++) {
             const auto row = static_cast<size_t>(rig.tokens()[t]) * kCols;
             normalise(&table.values[row], ln0.weight, ln0.bias, 0, kCols, 1e-5, &want[t * kCols]);
           }
           Doubles got = rig.read(out);
           got.resize(want.size());
           // A backend may fold ln0 into its 16-bit table.
           const DType computed = dtype == DType::f32 ? ops.residual_dtype() : dtype;
           expect_close(got, want, ops.activation_dtype() == DType::f32 ? DType::f32 : computed, "embed");
         }});
  }
}

void add_elementwise(Cases& cases) {
  cases.push_back({"add", [](Ops& ops) {
                     OpsRig rig(ops);
                     const Made x = rig.tensor(5, 136, ops.residual_dtype(), -4, 4), y = rig.tensor(5, 136);
                     ops.add(x.tensor, y.tensor);
                     Doubles want = x.values;
                     for (size_t i = 0; i < want.size(); i++) want[i] += y.values[i];
                     expect_close(rig.read(x.tensor), want, ops.residual_dtype(), "add");
                   }});
  cases.push_back({"multiply", [](Ops& ops) {
                     OpsRig rig(ops);
                     const Made a = rig.tensor(5, 136), b = rig.tensor(5, 136);
                     Doubles want = a.values;
                     for (size_t i = 0; i < want.size(); i++) want[i] *= b.values[i];
                     const Tensor out = rig.empty(5, 136);
                     ops.multiply(a.tensor, b.tensor, out);
                     expect_close(rig.read(out), want, ops.activation_dtype(), "multiply");
                     ops.multiply(a.tensor, b.tensor, a.tensor);
                     expect_close(rig.read(a.tensor), want, ops.activation_dtype(), "multiply into a");
                   }});
  cases.push_back({"add_bias", [](Ops& ops) {
                     OpsRig rig(ops);
                     const Made x = rig.tensor(5, 136), bias = rig.vector(1, 136);
                     ops.add_bias(x.tensor, bias.tensor);
                     Doubles want = x.values;
                     for (size_t i = 0; i < want.size(); i++) want[i] += bias.values[i % 136];
                     expect_close(rig.read(x.tensor), want, ops.activation_dtype(), "add_bias");
                   }});
  for (const bool per_row : {false, true}) {
    cases.push_back({per_row ? "lerp_rows" : "lerp_vector", [=](Ops& ops) {
                       OpsRig rig(ops);
                       const Made z = rig.tensor(6, 72), other = rig.tensor(6, 72);
                       const Made mix = per_row ? rig.tensor(6, 72, 0, 1) : rig.vector(1, 72, 0, 1);
                       Doubles want = z.values;
                       for (size_t i = 0; i < want.size(); i++) {
                         want[i] += (other.values[i] - z.values[i]) * mix.values[i % mix.values.size()];
                       }
                       const Tensor out = rig.empty(6, 72);
                       ops.lerp(z.tensor, other.tensor, mix.tensor, out);
                       expect_close(rig.read(out), want, ops.activation_dtype(), "lerp");
                       const Made z_copy = rig.same(z), other_copy = rig.same(other);
                       ops.lerp(z_copy.tensor, other.tensor, mix.tensor, z_copy.tensor);
                       expect_close(rig.read(z_copy.tensor), want, ops.activation_dtype(), "lerp into z");
                       ops.lerp(z.tensor, other_copy.tensor, mix.tensor, other_copy.tensor);
                       expect_close(rig.read(other_copy.tensor), want, ops.activation_dtype(),
                                    "lerp into other");
                     }});
  }
  cases.push_back({"lerp_shifted", [](Ops& ops) {
                     OpsRig rig(ops);
                     const Made z = rig.tensor(6, 72), other = rig.tensor(6, 72), delta = rig.tensor(6, 72);
                     const Made mix = rig.vector(1, 72, 0, 1);
                     Doubles want = z.values;
                     for (size_t i = 0; i < want.size(); i++) {
                       want[i] += (other.values[i] - z.values[i]) * (mix.values[i % 72] + delta.values[i]);
                     }
                     const Tensor out = rig.empty(6, 72);
                     ops.lerp_shifted(z.tensor, other.tensor, mix.tensor, delta.tensor, out);
                     expect_close(rig.read(out), want, ops.activation_dtype(), "lerp_shifted");
                   }});
}

void add_activations(Cases& cases) {
  struct Named {
    const char* name;
    Activation act;
    double (*function)(double);
  };
  static const Named kActivations[] = {
      {"tanh", Activation::tanh, [](double x) { return std::tanh(x); }},
      {"sigmoid", Activation::sigmoid, sigmoid},
      {"silu", Activation::silu, [](double x) { return x * sigmoid(x); }},
      {"relu_squared", Activation::relu_squared, [](double x) { return x > 0 ? x * x : 0; }}};
  for (const Named& named : kActivations) {
    for (const bool biased : {false, true}) {
      for (const double range : {3.0, 60.0}) {
        const std::string name = std::string("activate_") + named.name + (biased ? "_biased_" : "_") +
                                 std::to_string(static_cast<int>(range));
        cases.push_back({name, [=](Ops& ops) {
                           OpsRig rig(ops);
                           const Made x = rig.tensor(3, 104, -range, range), bias = rig.vector(1, 104);
                           ops.activate(x.tensor, biased ? bias.tensor : Tensor{}, named.act);
                           Doubles want = x.values;
                           for (size_t i = 0; i < want.size(); i++) {
                             want[i] = named.function(want[i] + (biased ? bias.values[i % 104] : 0));
                           }
                           expect_close(rig.read(x.tensor), want, ops.activation_dtype(), "activate");
                         }});
      }
    }
  }
}

void add_shift(Cases& cases) {
  for (const auto& lengths : kLengths) {
    cases.push_back({"shift_" + text(lengths), [=](Ops& ops) {
                       OpsRig rig(ops);
                       constexpr int64_t kCols = 64;
                       const Batch batch = rig.begin(lengths, 1, kCols);
                       const Made z = rig.tensor(batch.rows, kCols);
                       const StateField carry = rig.state().ffn_shift(0);
                       Doubles want, last;
                       for (size_t s = 0; s < lengths.size(); s++) {
                         Doubles previous = rig.read(carry, rig.slots()[s], kCols);
                         for (int32_t t = rig.starts()[s]; t < rig.starts()[s + 1]; t++) {
                           want.insert(want.end(), previous.begin(), previous.end());
                           previous.assign(z.values.begin() + t * kCols, z.values.begin() + (t + 1) * kCols);
                         }
                         last.insert(last.end(), previous.begin(), previous.end());
                       }
                       const Doubles untouched = rig.read(carry, 0, kCols);
                       const Tensor out = rig.empty(batch.rows, kCols);
                       ops.shift(batch, z.tensor, carry, out);
                       Doubles got = rig.read(out), carried;
                       got.resize(want.size());
                       for (const int32_t slot : rig.slots()) {
                         const Doubles one = rig.read(carry, slot, kCols);
                         carried.insert(carried.end(), one.begin(), one.end());
                       }
                       EXPECT_EQ(rig.read(carry, 0, kCols), untouched) << "a slot outside the batch";
                       expect_close(got, want, ops.activation_dtype(), "shifted");
                       expect_close(carried, last, ops.activation_dtype(), "carried");
                     }});
  }
}

void add_linear(Cases& cases) {
  struct Size {
    int64_t rows, in, out;
  };
  for (const Size size :
       {Size{1, 64, 32}, Size{1, 256, 100}, Size{3, 72, 40}, Size{17, 128, 72}, Size{65, 96, 256}}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const bool transposed : {false, true}) {
        const std::string name = "linear_" + std::to_string(size.rows) + "_" + std::to_string(size.in) + "_" +
                                 std::to_string(size.out) + "_" + std::string(name_of(dtype)) +
                                 (transposed ? "_transposed" : "");
        cases.push_back({name, [=](Ops& ops) {
                           OpsRig rig(ops);
                           const Made in = rig.tensor(size.rows, size.in);
                           const WeightRole role = transposed ? WeightRole::low_rank : WeightRole::projection;
                           const MadeWeight weight = rig.weight(size.out, size.in, dtype, role, transposed);
                           Doubles want(static_cast<size_t>(size.rows * size.out));
                           for (int64_t t = 0; t < size.rows; t++) {
                             for (int64_t o = 0; o < size.out; o++) {
                               for (int64_t i = 0; i < size.in; i++) {
                                 want[static_cast<size_t>(t * size.out + o)] +=
                                     in.at(t, i) * weight.values[static_cast<size_t>(o * size.in + i)];
                               }
                             }
                           }
                           const Tensor out = rig.empty(size.rows, size.out);
                           ops.linear(in.tensor, weight.weight, out);
                           expect_close(rig.read(out), want, ops.activation_dtype(), "linear");
                           const Tensor wide = rig.empty(size.rows, size.out, DType::f32);
                           ops.linear(in.tensor, weight.weight, wide);
                           expect_close(rig.read(wide), want, ops.activation_dtype(), "linear to f32");
                         }});
      }
    }
  }
}

void add_keys_and_bonus(Cases& cases) {
  for (const HeadShape shape : kHeadShapes) {
    cases.push_back({"key_prepare7_" + text(shape), [=](Ops& ops) {
                       OpsRig rig(ops);
                       const int64_t c = shape.width(), n = shape.head_size;
                       const Made k = rig.tensor(5, c), alpha = rig.tensor(5, c, 0, 1);
                       const Made k_k = rig.vector(1, c), k_a = rig.vector(1, c);
                       TimeMix7 att;
                       att.n_head = shape.n_head;
                       att.head_size = n;
                       att.k_k = k_k.tensor;
                       att.k_a = k_a.tensor;
                       Doubles want_kk(k.values.size()), want_k(k.values.size());
                       for (size_t i = 0; i < want_kk.size(); i++) {
                         const size_t col = i % static_cast<size_t>(c);
                         want_kk[i] = k.values[i] * k_k.values[col];
                         want_k[i] = k.values[i] * (1 + (alpha.values[i] - 1) * k_a.values[col]);
                       }
                       for (size_t at = 0; at < want_kk.size(); at += static_cast<size_t>(n)) {
                         double squares = 0;
                         for (size_t i = at; i < at + static_cast<size_t>(n); i++)
                           squares += want_kk[i] * want_kk[i];
                         for (size_t i = at; i < at + static_cast<size_t>(n); i++)
                           want_kk[i] /= std::sqrt(squares);
                       }
                       const Tensor kk = rig.empty(5, c);
                       ops.key_prepare7(att, k.tensor, alpha.tensor, kk);
                       expect_close(rig.read(kk), want_kk, ops.activation_dtype(), "kk");
                       expect_close(rig.read(k.tensor), want_k, ops.activation_dtype(), "k");

                       const Made zero = rig.tensor(5, c, 0, 1e-30);
                       ops.key_prepare7(att, zero.tensor, alpha.tensor, kk);
                       for (const double value : rig.read(kk))
                         ASSERT_LT(std::abs(value), 1e-3) << "kk of a zero key";
                     }});
    cases.push_back({"bonus7_" + text(shape), [=](Ops& ops) {
                       OpsRig rig(ops);
                       const int64_t c = shape.width();
                       const auto n = static_cast<size_t>(shape.head_size);
                       const Made r = rig.tensor(5, c), k = rig.tensor(5, c), v = rig.tensor(5, c),
                                  y = rig.tensor(5, c);
                       const Made r_k = rig.vector(1, c);
                       TimeMix7 att;
                       att.n_head = shape.n_head;
                       att.head_size = shape.head_size;
                       att.r_k = r_k.tensor;
                       Doubles want = y.values;
                       for (size_t at = 0; at < want.size(); at += n) {
                         double agreement = 0;
                         for (size_t i = at; i < at + n; i++) {
                           agreement += r.values[i] * k.values[i] * r_k.values[i % static_cast<size_t>(c)];
                         }
                         for (size_t i = at; i < at + n; i++) want[i] += agreement * v.values[i];
                       }
                       Projected7 p;
                       p.r = r.tensor;
                       p.k = k.tensor;
                       p.v = v.tensor;
                       ops.bonus7(att, p, y.tensor);
                       expect_close(rig.read(y.tensor), want, ops.activation_dtype(), "bonus7");
                     }});
  }
}

// Both recurrences in plain loops; wkv [C, N] is updated. For RWKV-7 kk and alpha, for RWKV-6 u is not empty.
struct Recurrence {
  const HeadShape shape;
  const Made &r, &k, &v, &decay;
  const Doubles* kk = nullptr;
  const Doubles* alpha = nullptr;
  const Doubles* u = nullptr;

  void step(size_t t, Doubles& wkv, Doubles& y) const {
    const auto n = static_cast<size_t>(shape.head_size), c = static_cast<size_t>(shape.width());
    const size_t row = t * c;
    for (size_t i = 0; i < c; i++) {
      const size_t head = i / n * n;
      double* cells = &wkv[i * n];
      double removed = 0, out = 0;
      for (size_t j = 0; kk != nullptr && j < n; j++) removed -= cells[j] * (*kk)[row + head + j];
      for (size_t j = 0; j < n; j++) {
        const size_t at = row + head + j;
        const double added = v.values[row + i] * k.values[at];
        if (kk != nullptr) {
          const double w = std::exp(-std::exp(-0.5) * sigmoid(decay.values[at]));
          cells[j] = cells[j] * w + removed * (*kk)[at] * (*alpha)[at] + added;
          out += cells[j] * r.values[at];
        } else {
          out += (cells[j] + (*u)[head + j] * added) * r.values[at];
          cells[j] = cells[j] * std::exp(-std::exp(decay.values[at])) + added;
        }
      }
      y.push_back(out);
    }
  }
};

void run_wkv(Ops& ops, int version, HeadShape shape, const std::vector<int32_t>& lengths) {
  OpsRig rig(ops);
  const int64_t c = shape.width(), n = shape.head_size;
  const Batch batch = rig.begin(lengths, shape.n_head, n);
  const Made r = rig.tensor(batch.rows, c), k = rig.tensor(batch.rows, c, -0.3, 0.3),
             v = rig.tensor(batch.rows, c);
  const Made decay = rig.tensor(batch.rows, c, -6, 3);
  const double bound = 1 / std::sqrt(static_cast<double>(n));
  const Made kk = rig.tensor(batch.rows, c, -bound, bound), alpha = rig.tensor(batch.rows, c, 0, 1);
  const Made u = rig.vector(1, c);
  Recurrence recurrence{shape, r, k, v, decay};
  if (version == 7) {
    recurrence.kk = &kk.values;
    recurrence.alpha = &alpha.values;
  } else {
    recurrence.u = &u.values;
  }
  const StateField wkv = rig.state().wkv(0);
  Doubles want_y, want_state;
  for (size_t s = 0; s < lengths.size(); s++) {
    Doubles state = rig.read(wkv, rig.slots()[s], c * n);
    for (int32_t t = rig.starts()[s]; t < rig.starts()[s + 1]; t++) {
      recurrence.step(static_cast<size_t>(t), state, want_y);
    }
    want_state.insert(want_state.end(), state.begin(), state.end());
  }
  const Doubles untouched = rig.read(wkv, 1, c * n);
  const Tensor y = rig.empty(batch.rows, c);
  if (version == 7) {
    TimeMix7 att;
    att.n_head = shape.n_head;
    att.head_size = n;
    ops.wkv7(batch, att, {r.tensor, k.tensor, v.tensor, {}, decay.tensor, kk.tensor, alpha.tensor}, wkv, y);
  } else {
    TimeMix6 att;
    att.n_head = shape.n_head;
    att.head_size = n;
    att.u = u.tensor;
    ops.wkv6(batch, att, {r.tensor, k.tensor, v.tensor, {}, decay.tensor}, wkv, y);
  }
  Doubles got_y = rig.read(y), got_state;
  got_y.resize(want_y.size());
  for (const int32_t slot : rig.slots()) {
    const Doubles one = rig.read(wkv, slot, c * n);
    got_state.insert(got_state.end(), one.begin(), one.end());
  }
  EXPECT_EQ(rig.read(wkv, 1, c * n), untouched) << "a slot outside the batch";
  expect_close(got_y, want_y, ops.activation_dtype(), "y");
  expect_close(got_state, want_state, DType::f32, "state");
}

void add_wkv(Cases& cases) {
  for (const int version : {7, 6}) {
    for (const HeadShape shape : kHeadShapes) {
      for (const auto& lengths : kLengths) {
        if (sum(lengths) > 100 && shape.width() > 64) continue;
        const std::string name =
            "wkv" + std::to_string(version) + "_" + text(shape) + "_rows_" + text(lengths);
        cases.push_back({name, [=](Ops& ops) { run_wkv(ops, version, shape, lengths); }});
      }
    }
  }
}

void run_deep_embed(Ops& ops) {
  OpsRig rig(ops);
  constexpr int64_t kVocab = 9, kCols = 64, kRank = 8, kFfn = 128;
  const MadeWeight table = rig.weight(kVocab, kCols, DType::f32, WeightRole::embedding);
  const MadeNorm ln0 = rig.norm(kCols);
  const MadeWeight s_emb = rig.weight(kVocab, kRank * kRank, DType::f32, WeightRole::embedding);
  const MadeWeight s_emb_x = rig.weight(kRank * kRank, kCols, DType::f32, WeightRole::low_rank);
  const MadeWeight s1 = rig.weight(kRank, kCols, DType::f32, WeightRole::low_rank, true);
  const MadeWeight s2 = rig.weight(kFfn, kRank, DType::f32, WeightRole::low_rank, true);
  const Made s0 = rig.vector(1, kFfn);
  rig.set_tokens_below(kVocab);
  const Batch batch = rig.begin({4, 1, 2}, 1, kCols);
  const Made z = rig.tensor(batch.rows, kCols);
  ChannelMix7 ffn;
  ffn.deep_embed = true;
  ffn.deep_rank = kRank;
  ffn.s_emb = s_emb.weight;
  ffn.s_emb_x = s_emb_x.weight;
  ffn.s1 = s1.weight;
  ffn.s2 = s2.weight;
  ffn.s0 = s0.tensor;
  Doubles want;
  for (size_t t = 0; t < rig.tokens().size(); t++) {
    const auto token = static_cast<size_t>(rig.tokens()[t]);
    Doubles x(kCols), low(kRank), product(kRank);
    normalise(&table.values[token * kCols], ln0.weight, ln0.bias, 0, kCols, 1e-5, x.data());
    for (size_t d = 0; d < kRank; d++) {
      for (size_t i = 0; i < kCols; i++)
        low[d] += z.at(static_cast<int64_t>(t), static_cast<int64_t>(i)) * s1.values[d * kCols + i];
    }
    for (size_t d = 0; d < kRank; d++) {
      for (size_t e = 0; e < kRank; e++) {
        const size_t cell = d * kRank + e;
        double value = s_emb.values[token * kRank * kRank + cell];
        for (size_t i = 0; i < kCols; i++) value += x[i] * s_emb_x.values[cell * kCols + i];
        product[e] += low[d] * value;
      }
    }
    for (size_t f = 0; f < kFfn; f++) {
      double value = s0.values[f];
      for (size_t e = 0; e < kRank; e++) value += product[e] * s2.values[f * kRank + e];
      want.push_back(value);
    }
  }
  const Tensor scale = rig.empty(batch.rows, kFfn);
  ops.deep_embed(batch, {table.weight, ln0.norm}, ffn, z.tensor, scale);
  Doubles got = rig.read(scale);
  got.resize(want.size());
  expect_close(got, want, ops.activation_dtype(), "deep_embed");
}

void add_slots(Cases& cases) {
  cases.push_back({"gather_wanted", [](Ops& ops) {
                     OpsRig rig(ops);
                     const Batch batch = rig.begin({3, 1, 4}, 1, 64);
                     const Made x = rig.tensor(batch.rows, 64, ops.residual_dtype(), -1, 1);
                     const Tensor out = rig.empty(batch.wanted, 64, ops.residual_dtype());
                     ops.gather_wanted(batch, x.tensor, out);
                     const Doubles got = rig.read(out);
                     for (size_t i = 0; i < rig.wanted().size(); i++) {
                       for (size_t c = 0; c < 64; c++) {
                         ASSERT_EQ(got[i * 64 + c], x.at(rig.wanted()[i], static_cast<int64_t>(c)));
                       }
                     }
                   }});
  cases.push_back({"zero_and_copy_slot", [](Ops& ops) {
                     OpsRig rig(ops);
                     rig.begin({1, 1}, 2, 64);
                     const size_t each = rig.state().layout.slot_bytes();
                     std::vector<std::byte> want = rig.read_all_slots();
                     std::copy_n(want.begin() + static_cast<ptrdiff_t>(3 * each), each, want.begin());
                     std::fill_n(want.begin() + static_cast<ptrdiff_t>(2 * each), each, std::byte{0});
                     ops.copy_slot(rig.state(), 3, 0);
                     ops.zero_slot(rig.state(), 2);
                     EXPECT_EQ(rig.read_all_slots(), want);
                   }});
  cases.push_back({"deep_embed", run_deep_embed});
}

}  // namespace

std::vector<OpsCase> primitive_cases() {
  Cases cases;
  add_norms(cases);
  add_embed(cases);
  add_elementwise(cases);
  add_activations(cases);
  add_shift(cases);
  add_linear(cases);
  add_keys_and_bonus(cases);
  add_wkv(cases);
  add_slots(cases);
  return cases;
}

}  // namespace fulmar::support
