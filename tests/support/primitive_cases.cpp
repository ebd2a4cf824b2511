// Every primitive against plain double-precision loops, over odd shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rwkv7/islands.h"
#include "support/case_shapes.h"
#include "support/ops_cases.h"
#include "support/ops_rig.h"

namespace fulmar::support {

namespace {

void normalise(const double* x, const Doubles& weight, const Doubles& bias, size_t first, size_t n,
               double eps, double* out) {
  double mean = 0, variance = 0;
  for (size_t i = 0; i < n; i++) mean += x[i] / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) {
    out[i] = (x[i] - mean) / std::sqrt(variance + eps) * weight[first + i] + bias[first + i];
  }
}

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
  ops.rwkv7().deep_embed(batch, {table.weight, ln0.norm}, ffn, z.tensor, scale);
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
  add_recurrences(cases);
  add_slots(cases);
  return cases;
}

}  // namespace fulmar::support
