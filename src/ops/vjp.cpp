#include "ops/vjp.h"

#include <algorithm>
#include <cmath>

#include "ops/products.h"

namespace fulmar {
namespace {

template <class Number>
Number logistic(Number x) {
  return 1 / (1 + std::exp(-x));
}

template <class Number>
Number activated(Number x, Activation act) {
  switch (act) {
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return logistic(x);
    case Activation::silu:
      return x * logistic(x);
    case Activation::relu_squared:
      return x > 0 ? x * x : 0;
  }
  return x;
}

template <class Number>
Number slope(Number x, Activation act) {
  const Number s = logistic(x), t = act == Activation::tanh ? std::tanh(x) : 0;
  switch (act) {
    case Activation::tanh:
      return 1 - t * t;
    case Activation::sigmoid:
      return s * (1 - s);
    case Activation::silu:
      return s * (1 + x * (1 - s));
    case Activation::relu_squared:
      return x > 0 ? 2 * x : 0;
  }
  return 1;
}

// Returns fold(x) [rows, rank] of MiSS: sums over the columns that are equal modulo the rank.
template <class Number>
Matrix<Number> fold(const Matrix<Number>& x, int64_t rank) {
  Matrix<Number> folded(x.rows, rank);
  for (int64_t t = 0; t < x.rows; t++) {
    for (int64_t i = 0; i < x.cols; i++) folded(t, i % rank) += x(t, i);
  }
  return folded;
}

template <class Number>
void add_delta(const Matrix<Number>& x, const DeltaParameters<Number>& delta, Matrix<Number>& y) {
  if (delta.a != nullptr) {
    Matrix<Number> low(x.rows, delta.a->value.rows);
    add_product_transposed(x, delta.a->value, Number(1), low);
    add_product_transposed(low, delta.b->value, delta.scale, y);
  } else if (delta.d != nullptr) {
    add_product(fold(x, delta.d->value.rows), delta.d->value, delta.scale, y);
  }
}

// Adds the adapter's part of the gradients.
template <class Number>
void add_delta_vjp(const Matrix<Number>& dy, const Matrix<Number>& x, const DeltaParameters<Number>& delta,
                   Matrix<Number>& dx) {
  if (delta.a != nullptr) {
    const int64_t rank = delta.a->value.rows;
    Matrix<Number> dlow(x.rows, rank);
    add_product(dy, delta.b->value, delta.scale, dlow);
    add_product(dlow, delta.a->value, Number(1), dx);
    if (delta.b->trained()) {
      Matrix<Number> low(x.rows, rank);
      add_product_transposed(x, delta.a->value, Number(1), low);
      add_transposed_product(dy, low, delta.scale, delta.b->gradient);
    }
    if (delta.a->trained()) add_transposed_product(dlow, x, Number(1), delta.a->gradient);
  } else if (delta.d != nullptr) {
    const int64_t rank = delta.d->value.rows;
    Matrix<Number> dfolded(x.rows, rank);
    add_product_transposed(dy, delta.d->value, delta.scale, dfolded);
    for (int64_t t = 0; t < x.rows; t++) {
      for (int64_t i = 0; i < x.cols; i++) dx(t, i) += dfolded(t, i % rank);
    }
    if (delta.d->trained()) add_transposed_product(fold(x, rank), dy, delta.scale, delta.d->gradient);
  }
}

// The part of a row that is normed together, and what norms it.
struct NormedPart {
  double mean = 0, inverse = 0;  // of the deviation
};

// Returns mean and inverse deviation of `count` numbers, summed in f64.
template <class Number>
NormedPart part_of(const Number* x, int64_t count, double eps) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; i++) {
    const double from_mean = static_cast<double>(x[i]) - mean;
    squares += from_mean * from_mean;
  }
  return {mean, 1 / std::sqrt(squares / static_cast<double>(count) + eps)};
}

}  // namespace

template <class Number>
Matrix<Number> linear(const Matrix<Number>& x, const LinearParameters<Number>& p) {
  Matrix<Number> y(x.rows, p.weight->value.rows);
  add_product_transposed(x, p.weight->value, Number(1), y);
  add_delta(x, p.delta, y);
  return y;
}

template <class Number>
Matrix<Number> linear_vjp(const Matrix<Number>& dy, const Matrix<Number>& x,
                          const LinearParameters<Number>& p) {
  Matrix<Number> dx(x.rows, x.cols);
  add_product(dy, p.weight->value, Number(1), dx);
  if (p.weight->trained()) add_transposed_product(dy, x, Number(1), p.weight->gradient);
  add_delta_vjp(dy, x, p.delta, dx);
  return dx;
}

template <class Number>
Matrix<Number> multiply_factor(const Matrix<Number>& x, const Parameter<Number>& factor) {
  Matrix<Number> y(x.rows, factor.value.cols);
  add_product(x, factor.value, Number(1), y);
  return y;
}

template <class Number>
Matrix<Number> multiply_factor_vjp(const Matrix<Number>& dy, const Matrix<Number>& x,
                                   Parameter<Number>& factor) {
  Matrix<Number> dx(x.rows, x.cols);
  add_product_transposed(dy, factor.value, Number(1), dx);
  if (factor.trained()) add_transposed_product(x, dy, Number(1), factor.gradient);
  return dx;
}

template <class Number>
Matrix<Number> activate(const Matrix<Number>& x, Activation act) {
  Matrix<Number> y = x;
  for (Number& one : y.values) one = activated(one, act);
  return y;
}

template <class Number>
Matrix<Number> activate_vjp(const Matrix<Number>& dy, const Matrix<Number>& x, Activation act) {
  Matrix<Number> dx = dy;
  for (size_t i = 0; i < x.values.size(); i++) dx.values[i] *= slope(x.values[i], act);
  return dx;
}

template <class Number>
Matrix<Number> low_rank(const Matrix<Number>& x, const LowRankParameters<Number>& p,
                        std::optional<Activation> act, Matrix<Number>& low) {
  low = multiply_factor(x, *p.first);
  Matrix<Number> y = multiply_factor(act ? activate(low, *act) : low, *p.second);
  if (p.bias == nullptr) return y;
  for (int64_t t = 0; t < y.rows; t++) {
    for (int64_t i = 0; i < y.cols; i++) y(t, i) += p.bias->value(0, i);
  }
  return y;
}

template <class Number>
Matrix<Number> low_rank_vjp(const Matrix<Number>& dy, const Matrix<Number>& x,
                            const LowRankParameters<Number>& p, std::optional<Activation> act,
                            const Matrix<Number>& low) {
  if (p.bias != nullptr) add_bias_vjp(dy, *p.bias);
  Matrix<Number> dlow = multiply_factor_vjp(dy, act ? activate(low, *act) : low, *p.second);
  if (act) dlow = activate_vjp(dlow, low, *act);
  return multiply_factor_vjp(dlow, x, *p.first);
}

template <class Number>
Matrix<Number> group_norm(NormShape shape, const Matrix<Number>& x, const NormParameters<Number>& p) {
  Matrix<Number> y(x.rows, x.cols);
  const int64_t width = x.cols / shape.groups;
  for (int64_t t = 0; t < x.rows; t++) {
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      const NormedPart part = part_of(x.row(t) + begin, width, shape.eps);
      for (int64_t i = begin; i < begin + width; i++) {
        const auto normed = static_cast<Number>((static_cast<double>(x(t, i)) - part.mean) * part.inverse);
        y(t, i) = normed * p.weight->value(0, i) + p.bias->value(0, i);
      }
    }
  }
  return y;
}

template <class Number>
Matrix<Number> group_norm_vjp(NormShape shape, const Matrix<Number>& dy, const Matrix<Number>& x,
                              const NormParameters<Number>& p) {
  Matrix<Number> dx(x.rows, x.cols);
  const int64_t width = x.cols / shape.groups;
  std::vector<double> normed(static_cast<size_t>(x.cols)), h(static_cast<size_t>(x.cols));
  for (int64_t t = 0; t < x.rows; t++) {
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      const NormedPart part = part_of(x.row(t) + begin, width, shape.eps);
      double mean = 0, along = 0;  // of h, and of h * normed
      for (int64_t i = begin; i < begin + width; i++) {
        const auto at = static_cast<size_t>(i);
        normed[at] = (static_cast<double>(x(t, i)) - part.mean) * part.inverse;
        h[at] = static_cast<double>(dy(t, i)) * static_cast<double>(p.weight->value(0, i));
        mean += h[at] / static_cast<double>(width);
        along += h[at] * normed[at] / static_cast<double>(width);
      }
      for (int64_t i = begin; i < begin + width; i++) {
        const auto at = static_cast<size_t>(i);
        dx(t, i) = static_cast<Number>(part.inverse * (h[at] - mean - normed[at] * along));
        if (p.weight->trained()) p.weight->gradient(0, i) += dy(t, i) * static_cast<Number>(normed[at]);
      }
    }
  }
  add_bias_vjp(dy, *p.bias);
  return dx;
}

template <class Number>
Matrix<Number> shift(SequenceBounds bounds, const Matrix<Number>& z, Matrix<Number>& carry) {
  Matrix<Number> out(z.rows, z.cols);
  for (int64_t s = 0; s < sequence_count(bounds); s++) {
    const int64_t first = bounds[static_cast<size_t>(s)], end = bounds[static_cast<size_t>(s) + 1];
    std::copy_n(carry.row(s), z.cols, out.row(first));
    for (int64_t t = first; t + 1 < end; t++) std::copy_n(z.row(t), z.cols, out.row(t + 1));
    std::copy_n(z.row(end - 1), z.cols, carry.row(s));
  }
  return out;
}

template <class Number>
Matrix<Number> shift_vjp(SequenceBounds bounds, const Matrix<Number>& dout, Matrix<Number>& dcarry) {
  Matrix<Number> dz(dout.rows, dout.cols);
  for (int64_t s = 0; s < sequence_count(bounds); s++) {
    const int64_t first = bounds[static_cast<size_t>(s)], end = bounds[static_cast<size_t>(s) + 1];
    for (int64_t t = first; t + 1 < end; t++) std::copy_n(dout.row(t + 1), dout.cols, dz.row(t));
    std::copy_n(dcarry.row(s), dout.cols, dz.row(end - 1));
    std::copy_n(dout.row(first), dout.cols, dcarry.row(s));
  }
  return dz;
}

template <class Number>
Matrix<Number> lerp(const Matrix<Number>& z, const Matrix<Number>& other, const Matrix<Number>& mix) {
  Matrix<Number> out(z.rows, z.cols);
  for (int64_t t = 0; t < z.rows; t++) {
    const Number* share = mix.row(mix.rows == z.rows ? t : 0);
    for (int64_t i = 0; i < z.cols; i++) out(t, i) = z(t, i) + (other(t, i) - z(t, i)) * share[i];
  }
  return out;
}

template <class Number>
void lerp_vjp(const Matrix<Number>& dout, const LerpInputs<Number>& in, Matrix<Number>& dz,
              Matrix<Number>& dother, Matrix<Number>& dmix) {
  for (int64_t t = 0; t < dout.rows; t++) {
    const int64_t mix_row = in.mix.rows == dout.rows ? t : 0;
    for (int64_t i = 0; i < dout.cols; i++) {
      const Number share = in.mix(mix_row, i);
      dz(t, i) += dout(t, i) * (1 - share);
      dother(t, i) += dout(t, i) * share;
      if (!dmix.empty()) dmix(mix_row, i) += dout(t, i) * (in.other(t, i) - in.z(t, i));
    }
  }
}

template <class Number>
Matrix<Number> multiply(const Matrix<Number>& a, const Matrix<Number>& b) {
  Matrix<Number> out = a;
  for (size_t i = 0; i < out.values.size(); i++) out.values[i] *= b.values[i];
  return out;
}

template <class Number>
void add_bias_vjp(const Matrix<Number>& d, Parameter<Number>& bias) {
  if (!bias.trained()) return;
  for (int64_t t = 0; t < d.rows; t++) {
    for (int64_t i = 0; i < d.cols; i++) bias.gradient(0, i) += d(t, i);
  }
}

#define FULMAR_PRIMITIVES_OF(N)                                                                         \
  template Matrix<N> linear(const Matrix<N>&, const LinearParameters<N>&);                              \
  template Matrix<N> linear_vjp(const Matrix<N>&, const Matrix<N>&, const LinearParameters<N>&);        \
  template Matrix<N> multiply_factor(const Matrix<N>&, const Parameter<N>&);                            \
  template Matrix<N> multiply_factor_vjp(const Matrix<N>&, const Matrix<N>&, Parameter<N>&);            \
  template Matrix<N> activate(const Matrix<N>&, Activation);                                            \
  template Matrix<N> activate_vjp(const Matrix<N>&, const Matrix<N>&, Activation);                      \
  template Matrix<N> low_rank(const Matrix<N>&, const LowRankParameters<N>&, std::optional<Activation>, \
                              Matrix<N>&);                                                              \
  template Matrix<N> low_rank_vjp(const Matrix<N>&, const Matrix<N>&, const LowRankParameters<N>&,      \
                                  std::optional<Activation>, const Matrix<N>&);                         \
  template Matrix<N> group_norm(NormShape, const Matrix<N>&, const NormParameters<N>&);                 \
  template Matrix<N> group_norm_vjp(NormShape, const Matrix<N>&, const Matrix<N>&,                      \
                                    const NormParameters<N>&);                                          \
  template Matrix<N> shift(SequenceBounds, const Matrix<N>&, Matrix<N>&);                               \
  template Matrix<N> shift_vjp(SequenceBounds, const Matrix<N>&, Matrix<N>&);                           \
  template Matrix<N> lerp(const Matrix<N>&, const Matrix<N>&, const Matrix<N>&);                        \
  template void lerp_vjp(const Matrix<N>&, const LerpInputs<N>&, Matrix<N>&, Matrix<N>&, Matrix<N>&);   \
  template Matrix<N> multiply(const Matrix<N>&, const Matrix<N>&);                                      \
  template void add_bias_vjp(const Matrix<N>&, Parameter<N>&)
FULMAR_PRIMITIVES_OF(float);
FULMAR_PRIMITIVES_OF(double);
#undef FULMAR_PRIMITIVES_OF

}  // namespace fulmar
