#include "rwkv7/backward.h"

#include "ops/vjp.h"

namespace fulmar {

template <class Number>
Matrix<Number> time_mix7(SequenceBounds bounds, const TimeMix7Parameters<Number>& att,
                         const Matrix<Number>& x, Matrix<Number>& v_first, Carry<Number>& carry,
                         TimeMix7Tape<Number>& tape) {
  TimeMix7Tape<Number>& t = tape;
  HostProjected7<Number>& p = t.p;
  t.x = x;
  t.z = group_norm(kLayerNorm, x, att.ln1);
  t.previous = shift(bounds, t.z, carry.att_shift);
  for (size_t i = 0; i < 6; i++) t.mixed[i] = lerp(t.z, t.previous, att.mix[i]->value);
  const auto& [xr, xw, xk, xv, xa, xg] = t.mixed;

  p.r = linear(xr, att.receptance);
  t.key = linear(xk, att.key);
  t.own_value = linear(xv, att.value);
  p.u = low_rank(xw, att.w, Activation::tanh, t.low_w);
  t.rate = low_rank(xa, att.a, {}, t.low_a);
  p.alpha = activate(t.rate, Activation::sigmoid);
  p.g = low_rank(xg, att.g, Activation::sigmoid, t.low_g);
  if (att.v.first == nullptr) {
    p.v = v_first = t.own_value;
  } else {
    t.v_first = v_first;
    t.share = low_rank(xv, att.v, {}, t.low_v);
    p.v = lerp(t.own_value, v_first, activate(t.share, Activation::sigmoid));
  }
  prepare_key7(att.vectors, t.key, p);

  t.y = wkv7(bounds, att.vectors.n_head, p, carry.wkv, t.kept);

  t.with_bonus = group_norm(head_norm_of(att.vectors.n_head), t.y, att.ln_x);
  add_bonus7(att.vectors, p, t.with_bonus);
  t.gated = multiply(t.with_bonus, p.g);
  return linear(t.gated, att.output);
}

template <class Number>
Matrix<Number> time_mix7_vjp(SequenceBounds bounds, const TimeMix7Parameters<Number>& att,
                             const TimeMix7Tape<Number>& tape, const Matrix<Number>& dout,
                             Matrix<Number>& dv_first, Carry<Number>& dcarry) {
  const TimeMix7Tape<Number>& t = tape;
  const HostProjected7<Number>& p = t.p;
  const auto& [xr, xw, xk, xv, xa, xg] = t.mixed;
  const Matrix<Number> zeros(t.x.rows, t.x.cols);
  HostProjected7<Number> d{zeros, zeros, zeros, zeros, zeros, zeros, zeros};

  const Matrix<Number> dgated = linear_vjp(dout, t.gated, att.output);
  d.g = multiply(dgated, t.with_bonus);
  Matrix<Number> dy = multiply(dgated, p.g);
  add_bonus7_vjp(att.vectors, dy, p, d);
  dy = group_norm_vjp(head_norm_of(att.vectors.n_head), dy, t.y, att.ln_x);

  wkv7_vjp(bounds, dy, p, t.kept, dcarry.wkv, d);

  const Matrix<Number> dkey = prepare_key7_vjp(att.vectors, t.key, p, d);
  std::array<Matrix<Number>, 6> dmixed;
  auto& [dxr, dxw, dxk, dxv, dxa, dxg] = dmixed;
  if (att.v.first == nullptr) {
    d.v += dv_first;  // gathered from all blocks above
    dxv = linear_vjp(d.v, xv, att.value);
  } else {
    const Matrix<Number> share = activate(t.share, Activation::sigmoid);
    Matrix<Number> down = zeros, dshare = zeros;
    lerp_vjp(d.v, {t.own_value, t.v_first, share}, down, dv_first, dshare);
    dxv = linear_vjp(down, xv, att.value);
    dxv += low_rank_vjp(activate_vjp(dshare, t.share, Activation::sigmoid), xv, att.v, {}, t.low_v);
  }
  dxg = low_rank_vjp(d.g, xg, att.g, Activation::sigmoid, t.low_g);
  dxa = low_rank_vjp(activate_vjp(d.alpha, t.rate, Activation::sigmoid), xa, att.a, {}, t.low_a);
  dxw = low_rank_vjp(d.u, xw, att.w, Activation::tanh, t.low_w);
  dxk = linear_vjp(dkey, xk, att.key);
  dxr = linear_vjp(d.r, xr, att.receptance);

  Matrix<Number> dz = zeros, dprevious = zeros;
  for (size_t i = 0; i < 6; i++) {
    lerp_vjp(dmixed[i], {t.z, t.previous, att.mix[i]->value}, dz, dprevious, att.mix[i]->gradient);
  }
  dz += shift_vjp(bounds, dprevious, dcarry.att_shift);
  return group_norm_vjp(kLayerNorm, dz, t.x, att.ln1);
}

template <class Number>
Matrix<Number> channel_mix7(SequenceBounds bounds, const ChannelMix7Parameters<Number>& ffn,
                            const Matrix<Number>& x, Carry<Number>& carry, ChannelMix7Tape<Number>& tape) {
  ChannelMix7Tape<Number>& t = tape;
  t.x = x;
  t.z = group_norm(kLayerNorm, x, ffn.ln2);
  t.previous = shift(bounds, t.z, carry.ffn_shift);
  t.mixed = lerp(t.z, t.previous, ffn.mix->value);
  t.hidden = linear(t.mixed, ffn.key);
  t.squares = activate(t.hidden, Activation::relu_squared);
  return linear(t.squares, ffn.value);
}

template <class Number>
Matrix<Number> channel_mix7_vjp(SequenceBounds bounds, const ChannelMix7Parameters<Number>& ffn,
                                const ChannelMix7Tape<Number>& tape, const Matrix<Number>& dout,
                                Carry<Number>& dcarry) {
  const ChannelMix7Tape<Number>& t = tape;
  const Matrix<Number> dsquares = linear_vjp(dout, t.squares, ffn.value);
  const Matrix<Number> dhidden = activate_vjp(dsquares, t.hidden, Activation::relu_squared);
  const Matrix<Number> dmixed = linear_vjp(dhidden, t.mixed, ffn.key);
  Matrix<Number> dz(t.x.rows, t.x.cols), dprevious(t.x.rows, t.x.cols);
  lerp_vjp(dmixed, {t.z, t.previous, ffn.mix->value}, dz, dprevious, ffn.mix->gradient);
  dz += shift_vjp(bounds, dprevious, dcarry.ffn_shift);
  return group_norm_vjp(kLayerNorm, dz, t.x, ffn.ln2);
}

#define FULMAR_BACKWARD7_OF(N)                                                                             \
  template Matrix<N> time_mix7(SequenceBounds, const TimeMix7Parameters<N>&, const Matrix<N>&, Matrix<N>&, \
                               Carry<N>&, TimeMix7Tape<N>&);                                               \
  template Matrix<N> time_mix7_vjp(SequenceBounds, const TimeMix7Parameters<N>&, const TimeMix7Tape<N>&,   \
                                   const Matrix<N>&, Matrix<N>&, Carry<N>&);                               \
  template Matrix<N> channel_mix7(SequenceBounds, const ChannelMix7Parameters<N>&, const Matrix<N>&,       \
                                  Carry<N>&, ChannelMix7Tape<N>&);                                         \
  template Matrix<N> channel_mix7_vjp(SequenceBounds, const ChannelMix7Parameters<N>&,                     \
                                      const ChannelMix7Tape<N>&, const Matrix<N>&, Carry<N>&)
FULMAR_BACKWARD7_OF(float);
FULMAR_BACKWARD7_OF(double);
#undef FULMAR_BACKWARD7_OF

}  // namespace fulmar
