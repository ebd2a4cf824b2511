// The vector-Jacobian product of each primitive against central differences.
#include "ops/vjp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/finite_differences.h"

namespace fulmar {
namespace {

using namespace support;
using M = HostNumbers;

constexpr Activation kActivations[] = {Activation::tanh, Activation::sigmoid, Activation::silu,
                                       Activation::relu_squared};

// A primitive, whose inputs are matrices or parameters.
struct Primitive {
  std::function<M()> forward;
  std::function<std::vector<M>(const M& dout)> backward;  // the gradients of the inputs
};

// Checks the inputs and all parameters of a primitive.
void check(const Primitive& primitive, std::vector<M>& inputs, CheckedParameters& parameters,
           RandomNumbers& random) {
  const M out = primitive.forward();
  const M weights = random.matrix(out.rows, out.cols);
  const std::vector<M> gradients = primitive.backward(weights);
  ASSERT_EQ(gradients.size(), inputs.size());
  std::vector<CheckedTensor> checked;
  for (size_t i = 0; i < inputs.size(); i++) {
    checked.push_back({"input " + std::to_string(i), &inputs[i], &gradients[i]});
  }
  parameters.append_to(checked);
  expect_gradients(checked, random, [&] { return inner_product(primitive.forward(), weights); });
}

struct Shapes {
  int64_t rows, in, out, rank;
};
constexpr Shapes kShapes[] = {{1, 1, 1, 1}, {3, 7, 5, 2}, {5, 16, 9, 16}, {17, 33, 20, 5}, {2, 5, 40, 7}};

// Runs a check for each of the shapes.
void for_shapes(const std::function<void(const Shapes&, CheckedParameters&, RandomNumbers&)>& test) {
  for (const Shapes& shapes : kShapes) {
    SCOPED_TRACE(testing::Message() << shapes.rows << " rows of " << shapes.in << " to " << shapes.out);
    RandomNumbers random(static_cast<uint64_t>(shapes.rows * 100 + shapes.in));
    CheckedParameters parameters(random);
    test(shapes, parameters, random);
  }
}

TEST(Vjp, Linear) {
  for (const char* kind : {"plain", "lora", "miss"}) {
    SCOPED_TRACE(kind);
    for_shapes([&](const Shapes& s, CheckedParameters& made, RandomNumbers& random) {
      LinearParameters<double> p{made.make(s.out, s.in)};
      p.delta.scale = 0.7;
      if (kind[0] == 'l') p.delta.a = made.make(s.rank, s.in), p.delta.b = made.make(s.out, s.rank);
      if (kind[0] == 'm') p.delta.d = made.make(s.rank, s.out);
      std::vector<M> in = {random.matrix(s.rows, s.in)};
      check({[&] { return linear(in[0], p); },
             [&](const M& dy) { return std::vector<M>{linear_vjp(dy, in[0], p)}; }},
            in, made, random);
    });
  }
}

TEST(Vjp, FrozenWeightsGetNoGradientAndLeaveThatOfTheInput) {
  for_shapes([&](const Shapes& s, CheckedParameters& made, RandomNumbers& random) {
    const LinearParameters<double> p{made.make(s.out, s.in),
                                     {made.make(s.rank, s.in), made.make(s.out, s.rank), nullptr, 2}};
    const M x = random.matrix(s.rows, s.in), dy = random.matrix(s.rows, s.out);
    const M all = linear_vjp(dy, x, p);
    for (Parameter<double>& one : made.all()) one.gradient = {};
    EXPECT_EQ(linear_vjp(dy, x, p).values, all.values);
    for (const Parameter<double>& one : made.all()) EXPECT_TRUE(one.gradient.empty());
  });
}

TEST(Vjp, Factors) {
  for_shapes([&](const Shapes& s, CheckedParameters& made, RandomNumbers& random) {
    Parameter<double>& factor = *made.make(s.in, s.out);
    std::vector<M> in = {random.matrix(s.rows, s.in)};
    check({[&] { return multiply_factor(in[0], factor); },
           [&](const M& dy) { return std::vector<M>{multiply_factor_vjp(dy, in[0], factor)}; }},
          in, made, random);
  });
}

TEST(Vjp, LowRankPaths) {
  std::vector<std::optional<Activation>> acts(std::begin(kActivations), std::end(kActivations));
  acts.emplace_back();
  for (const auto& act : acts) {
    for (const bool bias : {true, false}) {
      for_shapes([&](const Shapes& s, CheckedParameters& made, RandomNumbers& random) {
        const LowRankParameters<double> p{made.make(s.in, s.rank), made.make(s.rank, s.out),
                                          bias ? made.make(1, s.out) : nullptr};
        std::vector<M> in = {random.matrix(s.rows, s.in)};
        M low;
        check({[&] { return low_rank(in[0], p, act, low); },
               [&](const M& dy) { return std::vector<M>{low_rank_vjp(dy, in[0], p, act, low)}; }},
              in, made, random);
      });
    }
  }
}

TEST(Vjp, Activations) {
  for (const Activation act : kActivations) {
    for_shapes([&](const Shapes& s, CheckedParameters& made, RandomNumbers& random) {
      std::vector<M> in = {random.matrix(s.rows, s.in, 3)};
      check({[&] { return activate(in[0], act); },
             [&](const M& dy) { return std::vector<M>{activate_vjp(dy, in[0], act)}; }},
            in, made, random);
    });
  }
}

TEST(Vjp, ActivationsThatAreSaturatedHaveFiniteSlopes) {
  for (const Activation act : kActivations) {
    Matrix<float> x(1, 4), dy(1, 4);
    x.values = {-1000, -100, 100, 1000};
    dy.values = {1, 1, 1, 1};
    for (const float slope : activate_vjp(dy, x, act).values) EXPECT_TRUE(std::isfinite(slope));
  }
}

TEST(Vjp, GroupNorm) {
  for (const int64_t groups : {1, 3}) {
    for (const int64_t width : {2, 5, 16}) {
      for (const double eps : {1e-5, 64e-5}) {
        RandomNumbers random(static_cast<uint64_t>(groups * 10 + width));
        CheckedParameters made(random);
        const NormParameters<double> p{made.make(1, groups * width), made.make(1, groups * width)};
        std::vector<M> in = {random.matrix(5, groups * width)};
        check({[&] {
                 return group_norm({groups, eps}, in[0], p);
               },
               [&](const M& dy) {
                 return std::vector<M>{group_norm_vjp({groups, eps}, dy, in[0], p)};
               }},
              in, made, random);
      }
    }
  }
}

TEST(Vjp, ShiftWithinEachSequence) {
  for (const std::vector<int64_t>& bounds :
       {std::vector<int64_t>{0, 1}, {0, 7}, {0, 1, 2, 3}, {0, 4, 5, 11}}) {
    RandomNumbers random(3);
    CheckedParameters none(random);
    const auto sequences = static_cast<int64_t>(bounds.size()) - 1;
    std::vector<M> in = {random.matrix(bounds.back(), 3), random.matrix(sequences, 3)};
    // What is left in the carry counts, too: a row of the result for each sequence.
    const auto joined = [](M above, const M& below) {
      above.values.insert(above.values.end(), below.values.begin(), below.values.end());
      above.rows += below.rows;
      return above;
    };
    check({[&] {
             M carry = in[1];
             const M out = shift(bounds, in[0], carry);
             return joined(out, carry);
           },
           [&](const M& dout) {
             M d = dout, dcarry(sequences, 3);
             std::copy_n(dout.row(bounds.back()), sequences * 3, dcarry.values.begin());
             d.rows = bounds.back();
             d.values.resize(static_cast<size_t>(d.rows * 3));
             const M dz = shift_vjp(bounds, d, dcarry);
             return std::vector<M>{dz, dcarry};
           }},
          in, none, random);
  }
}

TEST(Vjp, LerpByAVectorAndByRows) {
  for (const int64_t mix_rows : {1, 6}) {
    RandomNumbers random(4);
    CheckedParameters none(random);
    std::vector<M> in = {random.matrix(6, 5), random.matrix(6, 5), random.matrix(mix_rows, 5)};
    check({[&] { return lerp(in[0], in[1], in[2]); },
           [&](const M& dout) {
             std::vector<M> d = {M(6, 5), M(6, 5), M(mix_rows, 5)};
             lerp_vjp(dout, {in[0], in[1], in[2]}, d[0], d[1], d[2]);
             return d;
           }},
          in, none, random);
  }
}

}  // namespace
}  // namespace fulmar
