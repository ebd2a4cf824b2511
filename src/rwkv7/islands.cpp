// The default body of every island of RWKV-7, composed of primitives: the specification. Backends override
// islands to be faster, never to compute something else.
#include "rwkv7/islands.h"

namespace fulmar {

void Islands7::enter(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
                     std::span<const Tensor, 6> mixed) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  ops_.absorb(x, pending);
  ops_.norm(x, att.ln1, z);
  ops_.shift(batch, z, att_shift, previous);
  for (int i = 0; i < 6; i++) ops_.lerp(z, previous, att.mix.slice_rows(i, 1), mixed[i]);
}

void Islands7::project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                       bool first_block, Tensor v_first, const Projected7& p) {
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  ops_.linear(xr, att.receptance, p.r);
  ops_.linear(xk, att.key, p.k);
  ops_.linear(xv, att.value, p.v);

  Scratch scratch(ops_);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  ops_.linear(xw, att.w.first, decay);
  ops_.activate(decay, {}, Activation::tanh);
  ops_.linear(decay, att.w.second, p.u);
  ops_.add_bias(p.u, att.w.bias);

  const Tensor rate = scratch.take(batch.rows, att.a.first.out);
  ops_.linear(xa, att.a.first, rate);
  ops_.linear(rate, att.a.second, p.alpha);
  ops_.activate(p.alpha, att.a.bias, Activation::sigmoid);

  const Tensor gate = scratch.take(batch.rows, att.g.first.out);
  ops_.linear(xg, att.g.first, gate);
  ops_.activate(gate, {}, Activation::sigmoid);
  ops_.linear(gate, att.g.second, p.g);

  if (first_block) {
    ops_.linear(xv, att.value, v_first);
  } else {
    const Tensor low = scratch.take(batch.rows, att.v.first.out);
    const Tensor share = scratch.take(batch.rows, p.v.cols);
    ops_.linear(xv, att.v.first, low);
    ops_.linear(low, att.v.second, share);
    ops_.activate(share, att.v.bias, Activation::sigmoid);
    ops_.lerp(p.v, v_first, share, p.v);
  }
  key_prepare(att, p.k, p.alpha, p.kk);
}

void Islands7::recur(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                     Tensor y) {
  wkv(batch, att, p, state, y);
}

void Islands7::leave(const Batch&, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) {
  ops_.head_norm(att.n_head, att.ln_x, y);
  bonus(att, p, y);
  ops_.multiply(y, p.g, y);
  ops_.linear(y, att.output, pending);
}

void Islands7::attend(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                      Tensor y, Tensor pending) {
  recur(batch, att, p, state, y);
  leave(batch, att, p, y, pending);
}

void Islands7::time_mix(const Batch& batch, const TimeMix7& att, bool first_block, const Block7Work& work,
                        StateField state) {
  project(batch, att, work.mixed, first_block, work.v_first, work.p);
  attend(batch, att, work.p, state, work.y, work.pending);
}

void Islands7::channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                           Addend addend, StateField ffn_shift, Tensor pending) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  ops_.absorb(x, addend);
  ops_.norm(x, ffn.ln2, z);
  ops_.shift(batch, z, ffn_shift, mixed);
  ops_.lerp(z, mixed, ffn.mix, mixed);
  ops_.linear(mixed, ffn.key, hidden);
  ops_.activate(hidden, {}, Activation::relu_squared);
  if (ffn.deep_embed) {
    const Tensor scale = scratch.take(x.rows, ffn.key.out);
    deep_embed(batch, embedding, ffn, z, scale);
    ops_.multiply(hidden, scale, hidden);
  }
  ops_.linear(hidden, ffn.value, pending);
}

}  // namespace fulmar
