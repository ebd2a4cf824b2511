// The default body of every island of RWKV-6, composed of primitives: the specification. Backends override
// islands to be faster, never to compute something else.
#include "rwkv6/islands.h"

namespace fulmar {

void Islands6::enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
                     std::span<const Tensor, 5> mixed) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  const Tensor delta = scratch.take(x.rows, x.cols);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  ops_.absorb(x, pending);
  ops_.norm(x, att.ln1, z);
  ops_.shift(batch, z, att_shift, previous);
  ops_.lerp(z, previous, att.mix_x, delta);
  ops_.linear(delta, att.mix_w1, low);
  ops_.activate(low, {}, Activation::tanh);
  const int64_t rank = att.mix_w1.out / 5;
  for (int i = 0; i < 5; i++) {
    ops_.linear(low.slice_cols(i * rank, rank), att.mix_w2[i], delta);
    ops_.lerp_shifted(z, previous, att.mix.slice_rows(i, 1), delta, mixed[i]);
  }
}

void Islands6::project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                       const Projected6& p) {
  const Tensor xw = mixed[0], xk = mixed[1], xv = mixed[2], xr = mixed[3], xg = mixed[4];
  ops_.linear(xr, att.receptance, p.r);
  ops_.linear(xk, att.key, p.k);
  ops_.linear(xv, att.value, p.v);
  ops_.linear(xg, att.gate, p.g);
  ops_.activate(p.g, {}, Activation::silu);

  Scratch scratch(ops_);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  ops_.linear(xw, att.w.first, decay);
  ops_.activate(decay, {}, Activation::tanh);
  ops_.linear(decay, att.w.second, p.u);
  ops_.add_bias(p.u, att.w.bias);
}

void Islands6::recur(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                     Tensor y) {
  wkv(batch, att, p, state, y);
}

void Islands6::leave(const Batch&, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) {
  ops_.head_norm(att.n_head, att.ln_x, y);
  ops_.multiply(y, p.g, y);
  ops_.linear(y, att.output, pending);
}

void Islands6::attend(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                      Tensor y, Tensor pending) {
  recur(batch, att, p, state, y);
  leave(batch, att, p, y, pending);
}

void Islands6::channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                           StateField ffn_shift, Tensor pending) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  ops_.absorb(x, addend);
  ops_.norm(x, ffn.ln2, z);
  ops_.shift(batch, z, ffn_shift, previous);
  ops_.lerp(z, previous, ffn.mix_k, mixed);
  ops_.linear(mixed, ffn.key, hidden);
  ops_.activate(hidden, {}, Activation::relu_squared);
  ops_.linear(hidden, ffn.value, pending);
  ops_.lerp(z, previous, ffn.mix_r, mixed);
  ops_.linear(mixed, ffn.receptance, gate);
  ops_.activate(gate, {}, Activation::sigmoid);
  ops_.multiply(pending, gate, pending);
}

}  // namespace fulmar
