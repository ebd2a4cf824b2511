// The default body of every island, composed of primitives: the specification. Backends override islands to
// be faster, never to compute something else.
#include "ops/ops.h"

namespace fulmar {

void Ops::absorb(Tensor x, const Addend& pending) {
  const Tensor own = pending.joined(x);
  if (!own.empty()) add(x, own);
}

// ---- RWKV-7

void Ops::enter7(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
                 std::span<const Tensor, 6> mixed) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  absorb(x, pending);
  norm(x, att.ln1, z);
  shift(batch, z, att_shift, previous);
  for (int i = 0; i < 6; i++) lerp(z, previous, att.mix.slice_rows(i, 1), mixed[i]);
}

void Ops::project7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                   bool first_block, Tensor v_first, const Projected7& p) {
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  linear(xr, att.receptance, p.r);
  linear(xk, att.key, p.k);
  linear(xv, att.value, p.v);

  Scratch scratch(*this);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  linear(xw, att.w.first, decay);
  activate(decay, {}, Activation::tanh);
  linear(decay, att.w.second, p.u);
  add_bias(p.u, att.w.bias);

  const Tensor rate = scratch.take(batch.rows, att.a.first.out);
  linear(xa, att.a.first, rate);
  linear(rate, att.a.second, p.alpha);
  activate(p.alpha, att.a.bias, Activation::sigmoid);

  const Tensor gate = scratch.take(batch.rows, att.g.first.out);
  linear(xg, att.g.first, gate);
  activate(gate, {}, Activation::sigmoid);
  linear(gate, att.g.second, p.g);

  if (first_block) {
    linear(xv, att.value, v_first);
  } else {
    const Tensor low = scratch.take(batch.rows, att.v.first.out);
    const Tensor share = scratch.take(batch.rows, p.v.cols);
    linear(xv, att.v.first, low);
    linear(low, att.v.second, share);
    activate(share, att.v.bias, Activation::sigmoid);
    lerp(p.v, v_first, share, p.v);
  }
  key_prepare7(att, p.k, p.alpha, p.kk);
}

void Ops::recur7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y) {
  wkv7(batch, att, p, wkv, y);
}

void Ops::leave7(const Batch&, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) {
  head_norm(att.n_head, att.ln_x, y);
  bonus7(att, p, y);
  multiply(y, p.g, y);
  linear(y, att.output, pending);
}

void Ops::attend7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y,
                  Tensor pending) {
  recur7(batch, att, p, wkv, y);
  leave7(batch, att, p, y, pending);
}

void Ops::time_mix7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                    bool first_block, Tensor v_first, const Projected7& p, StateField wkv, Tensor y,
                    Tensor pending) {
  project7(batch, att, mixed, first_block, v_first, p);
  attend7(batch, att, p, wkv, y, pending);
}

void Ops::channel_mix7(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                       Addend addend, StateField ffn_shift, Tensor pending) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  absorb(x, addend);
  norm(x, ffn.ln2, z);
  shift(batch, z, ffn_shift, mixed);
  lerp(z, mixed, ffn.mix, mixed);
  linear(mixed, ffn.key, hidden);
  activate(hidden, {}, Activation::relu_squared);
  if (ffn.deep_embed) {
    const Tensor scale = scratch.take(x.rows, ffn.key.out);
    deep_embed(batch, embedding, ffn, z, scale);
    multiply(hidden, scale, hidden);
  }
  linear(hidden, ffn.value, pending);
}

// ---- RWKV-6

void Ops::enter6(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
                 std::span<const Tensor, 5> mixed) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  const Tensor delta = scratch.take(x.rows, x.cols);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  absorb(x, pending);
  norm(x, att.ln1, z);
  shift(batch, z, att_shift, previous);
  lerp(z, previous, att.mix_x, delta);
  linear(delta, att.mix_w1, low);
  activate(low, {}, Activation::tanh);
  const int64_t rank = att.mix_w1.out / 5;
  for (int i = 0; i < 5; i++) {
    linear(low.slice_cols(i * rank, rank), att.mix_w2[i], delta);
    lerp_shifted(z, previous, att.mix.slice_rows(i, 1), delta, mixed[i]);
  }
}

void Ops::project6(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                   const Projected6& p) {
  const Tensor xw = mixed[0], xk = mixed[1], xv = mixed[2], xr = mixed[3], xg = mixed[4];
  linear(xr, att.receptance, p.r);
  linear(xk, att.key, p.k);
  linear(xv, att.value, p.v);
  linear(xg, att.gate, p.g);
  activate(p.g, {}, Activation::silu);

  Scratch scratch(*this);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  linear(xw, att.w.first, decay);
  activate(decay, {}, Activation::tanh);
  linear(decay, att.w.second, p.u);
  add_bias(p.u, att.w.bias);
}

void Ops::recur6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y) {
  wkv6(batch, att, p, wkv, y);
}

void Ops::leave6(const Batch&, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) {
  head_norm(att.n_head, att.ln_x, y);
  multiply(y, p.g, y);
  linear(y, att.output, pending);
}

void Ops::attend6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y,
                  Tensor pending) {
  recur6(batch, att, p, wkv, y);
  leave6(batch, att, p, y, pending);
}

void Ops::channel_mix6(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                       StateField ffn_shift, Tensor pending) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  absorb(x, addend);
  norm(x, ffn.ln2, z);
  shift(batch, z, ffn_shift, previous);
  lerp(z, previous, ffn.mix_k, mixed);
  linear(mixed, ffn.key, hidden);
  activate(hidden, {}, Activation::relu_squared);
  linear(hidden, ffn.value, pending);
  lerp(z, previous, ffn.mix_r, mixed);
  linear(mixed, ffn.receptance, gate);
  activate(gate, {}, Activation::sigmoid);
  multiply(pending, gate, pending);
}

// ---- both

void Ops::read_out(const Batch& batch, const Head& head, Tensor x, Addend pending, Tensor hidden,
                   Tensor logits) {
  Scratch scratch(*this);
  const Tensor wanted = scratch.take(hidden.rows, x.cols, x.dtype);
  absorb(x, pending);
  gather_wanted(batch, x, wanted);
  norm(wanted, head.ln_out, hidden);
  linear(hidden, head.matrix, logits);
}

}  // namespace fulmar
