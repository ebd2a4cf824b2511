#include "rwkv6/backward.h"

#include "ops/vjp.h"

namespace fulmar {
namespace {

// Returns the i-th of `parts` equal parts of the columns where they are, and zeros elsewhere.
template <class Number>
Matrix<Number> part_alone(const Matrix<Number>& m, int64_t i, int64_t parts) {
  Matrix<Number> alone(m.rows, m.cols);
  const int64_t width = m.cols / parts;
  for (int64_t t = 0; t < m.rows; t++) {
    for (int64_t j = i * width; j < (i + 1) * width; j++) alone(t, j) = m(t, j);
  }
  return alone;
}

template <class Number>
void add_vector(Matrix<Number>& rows, const Matrix<Number>& vector) {
  for (int64_t t = 0; t < rows.rows; t++) {
    for (int64_t j = 0; j < rows.cols; j++) rows(t, j) += vector(0, j);
  }
}

}  // namespace

template <class Number>
Matrix<Number> time_mix6(SequenceBounds bounds, const TimeMix6Parameters<Number>& att,
                         const Matrix<Number>& x, Carry<Number>& carry, TimeMix6Tape<Number>& tape) {
  TimeMix6Tape<Number>& t = tape;
  HostProjected6<Number>& p = t.p;
  t.x = x;
  t.z = group_norm(kLayerNorm, x, att.ln1);
  t.previous = shift(bounds, t.z, carry.att_shift);
  t.middle = lerp(t.z, t.previous, att.mix_x->value);
  t.low_mix = multiply_factor(t.middle, *att.mix_w1);
  const Matrix<Number> low = activate(t.low_mix, Activation::tanh);
  for (size_t i = 0; i < 5; i++) {
    t.mix[i] = multiply_factor(part_alone(low, static_cast<int64_t>(i), 5), *att.mix_w2);
    add_vector(t.mix[i], att.mix[i]->value);
    t.mixed[i] = lerp(t.z, t.previous, t.mix[i]);
  }
  const auto& [xw, xk, xv, xr, xg] = t.mixed;

  p.r = linear(xr, att.receptance);
  p.k = linear(xk, att.key);
  p.v = linear(xv, att.value);
  t.gate = linear(xg, att.gate);
  p.g = activate(t.gate, Activation::silu);
  p.u = low_rank(xw, att.w, Activation::tanh, t.low_w);

  t.y = wkv6(bounds, att.vectors, p, carry.wkv, t.kept);

  t.normed = group_norm(head_norm_of(att.vectors.n_head), t.y, att.ln_x);
  t.gated = multiply(t.normed, p.g);
  return linear(t.gated, att.output);
}

template <class Number>
Matrix<Number> time_mix6_vjp(SequenceBounds bounds, const TimeMix6Parameters<Number>& att,
                             const TimeMix6Tape<Number>& tape, const Matrix<Number>& dout,
                             Carry<Number>& dcarry) {
  const TimeMix6Tape<Number>& t = tape;
  const HostProjected6<Number>& p = t.p;
  const auto& [xw, xk, xv, xr, xg] = t.mixed;
  const Matrix<Number> zeros(t.x.rows, t.x.cols);
  HostProjected6<Number> d{zeros, zeros, zeros, zeros, zeros};

  const Matrix<Number> dgated = linear_vjp(dout, t.gated, att.output);
  d.g = multiply(dgated, t.normed);
  const Matrix<Number> dy =
      group_norm_vjp(head_norm_of(att.vectors.n_head), multiply(dgated, p.g), t.y, att.ln_x);

  wkv6_vjp(bounds, dy, {att.vectors, p, t.kept}, dcarry.wkv, d);

  std::array<Matrix<Number>, 5> dmixed;
  auto& [dxw, dxk, dxv, dxr, dxg] = dmixed;
  dxw = low_rank_vjp(d.u, xw, att.w, Activation::tanh, t.low_w);
  dxg = linear_vjp(activate_vjp(d.g, t.gate, Activation::silu), xg, att.gate);
  dxv = linear_vjp(d.v, xv, att.value);
  dxk = linear_vjp(d.k, xk, att.key);
  dxr = linear_vjp(d.r, xr, att.receptance);

  Matrix<Number> dz = zeros, dprevious = zeros, dlow(t.low_mix.rows, t.low_mix.cols);
  const Matrix<Number> low = activate(t.low_mix, Activation::tanh);
  for (int64_t i = 0; i < 5; i++) {
    const auto at = static_cast<size_t>(i);
    Matrix<Number> dmix = zeros;
    lerp_vjp(dmixed[at], {t.z, t.previous, t.mix[at]}, dz, dprevious, dmix);
    add_bias_vjp(dmix, *att.mix[at]);
    dlow += part_alone(multiply_factor_vjp(dmix, part_alone(low, i, 5), *att.mix_w2), i, 5);
  }
  const Matrix<Number> dmiddle =
      multiply_factor_vjp(activate_vjp(dlow, t.low_mix, Activation::tanh), t.middle, *att.mix_w1);
  lerp_vjp(dmiddle, {t.z, t.previous, att.mix_x->value}, dz, dprevious, att.mix_x->gradient);
  dz += shift_vjp(bounds, dprevious, dcarry.att_shift);
  return group_norm_vjp(kLayerNorm, dz, t.x, att.ln1);
}

template <class Number>
Matrix<Number> channel_mix6(SequenceBounds bounds, const ChannelMix6Parameters<Number>& ffn,
                            const Matrix<Number>& x, Carry<Number>& carry, ChannelMix6Tape<Number>& tape) {
  ChannelMix6Tape<Number>& t = tape;
  t.x = x;
  t.z = group_norm(kLayerNorm, x, ffn.ln2);
  t.previous = shift(bounds, t.z, carry.ffn_shift);
  t.mixed_k = lerp(t.z, t.previous, ffn.mix_k->value);
  t.hidden = linear(t.mixed_k, ffn.key);
  t.squares = activate(t.hidden, Activation::relu_squared);
  t.out = linear(t.squares, ffn.value);
  t.mixed_r = lerp(t.z, t.previous, ffn.mix_r->value);
  t.gate = linear(t.mixed_r, ffn.receptance);
  return multiply(t.out, activate(t.gate, Activation::sigmoid));
}

template <class Number>
Matrix<Number> channel_mix6_vjp(SequenceBounds bounds, const ChannelMix6Parameters<Number>& ffn,
                                const ChannelMix6Tape<Number>& tape, const Matrix<Number>& dout,
                                Carry<Number>& dcarry) {
  const ChannelMix6Tape<Number>& t = tape;
  const Matrix<Number> dgate = activate_vjp(multiply(dout, t.out), t.gate, Activation::sigmoid);
  const Matrix<Number> dmixed_r = linear_vjp(dgate, t.mixed_r, ffn.receptance);
  const Matrix<Number> dgated = multiply(dout, activate(t.gate, Activation::sigmoid));
  const Matrix<Number> dsquares = linear_vjp(dgated, t.squares, ffn.value);
  const Matrix<Number> dhidden = activate_vjp(dsquares, t.hidden, Activation::relu_squared);
  const Matrix<Number> dmixed_k = linear_vjp(dhidden, t.mixed_k, ffn.key);
  Matrix<Number> dz(t.x.rows, t.x.cols), dprevious(t.x.rows, t.x.cols);
  lerp_vjp(dmixed_k, {t.z, t.previous, ffn.mix_k->value}, dz, dprevious, ffn.mix_k->gradient);
  lerp_vjp(dmixed_r, {t.z, t.previous, ffn.mix_r->value}, dz, dprevious, ffn.mix_r->gradient);
  dz += shift_vjp(bounds, dprevious, dcarry.ffn_shift);
  return group_norm_vjp(kLayerNorm, dz, t.x, ffn.ln2);
}

#define FULMAR_BACKWARD6_OF(N)                                                                            \
  template Matrix<N> time_mix6(SequenceBounds, const TimeMix6Parameters<N>&, const Matrix<N>&, Carry<N>&, \
                               TimeMix6Tape<N>&);                                                         \
  template Matrix<N> time_mix6_vjp(SequenceBounds, const TimeMix6Parameters<N>&, const TimeMix6Tape<N>&,  \
                                   const Matrix<N>&, Carry<N>&);                                          \
  template Matrix<N> channel_mix6(SequenceBounds, const ChannelMix6Parameters<N>&, const Matrix<N>&,      \
                                  Carry<N>&, ChannelMix6Tape<N>&);                                        \
  template Matrix<N> channel_mix6_vjp(SequenceBounds, const ChannelMix6Parameters<N>&,                    \
                                      const ChannelMix6Tape<N>&, const Matrix<N>&, Carry<N>&)
FULMAR_BACKWARD6_OF(float);
FULMAR_BACKWARD6_OF(double);
#undef FULMAR_BACKWARD6_OF

}  // namespace fulmar
