// Islands of RWKV-7 in fewer passes over memory and fewer parallel sections than their default compositions:
// products of a stage together, everything elementwise around them row by row.
#include "cpu/islands7.h"

#include <cstring>

#include "cpu/cpu_backend.h"
#include "cpu/island_rows.h"

namespace fulmar {

CpuIslands7::CpuIslands7(CpuOps& cpu, ThreadPool& pool) : Islands7(cpu), cpu_(cpu), pool_(pool) {}

void CpuIslands7::deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                             Tensor scale) {
  const int64_t rank = ffn.deep_rank;
  Scratch scratch(ops_);
  const Tensor row = scratch.take(batch.rows, z.cols);
  const Tensor matrix = scratch.take(batch.rows, rank * rank);
  const Tensor low = scratch.take(batch.rows, rank);
  const Tensor product = scratch.take(batch.rows, rank);
  cpu::embed(pool_, batch, embedding, row);
  cpu_.linear(row, ffn.s_emb_x, matrix);
  cpu_.linear(z, ffn.s1, low);
  cpu::multiply_by_token(pool_, batch, ffn, matrix, low, product);
  cpu_.linear(product, ffn.s2, scale);
  cpu::add_bias(pool_, scale, ffn.s0);
}

void CpuIslands7::enter(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending,
                        StateField att_shift, std::span<const Tensor, 6> mixed) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  cpu::absorb_and_norm(pool_, x, pending, att.ln1, z);
  cpu::for_shifted_rows(pool_, batch, z, att_shift, [&](int64_t t, const float* previous) {
    for (int i = 0; i < 6; i++) {
      cpu::lerp_to(z.row<float>(t), previous, att.mix.row<float>(i), z.cols, mixed[i].row<float>(t));
    }
  });
}

void CpuIslands7::project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                          bool first_block, Tensor v_first, const Projected7& p) {
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  Scratch scratch(ops_);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  const Tensor rate = scratch.take(batch.rows, att.a.first.out);
  const Tensor gate = scratch.take(batch.rows, att.g.first.out);
  const Tensor low = scratch.take(batch.rows, first_block ? 0 : att.v.first.out);
  const Tensor share = scratch.take(batch.rows, first_block ? 0 : p.v.cols);

  const LinearTask first[] = {{xr, &att.receptance, p.r}, {xk, &att.key, p.k},      {xv, &att.value, p.v},
                              {xw, &att.w.first, decay},  {xa, &att.a.first, rate}, {xg, &att.g.first, gate},
                              {xv, &att.v.first, low}};
  const LinearTask second[] = {{decay, &att.w.second, p.u},
                               {rate, &att.a.second, p.alpha},
                               {gate, &att.g.second, p.g},
                               {low, &att.v.second, share}};
  cpu_.products(std::span(first).first(first_block ? 6 : 7));
  cpu::activate_rows(pool_, decay, Activation::tanh);
  cpu::activate_rows(pool_, gate, Activation::sigmoid);
  cpu_.products(std::span(second).first(first_block ? 3 : 4));

  cpu::for_rows(pool_, p.r, [&](int64_t t) {
    const int64_t c = p.r.cols;
    float* v = p.v.row<float>(t);
    cpu::add_to(p.u.row<float>(t), att.w.bias.as<float>(), c);
    cpu::activate_in_place(p.alpha.row<float>(t), att.a.bias.as<float>(), c, Activation::sigmoid);
    if (first_block) {
      std::memcpy(v_first.row<float>(t), v, static_cast<size_t>(c) * sizeof(float));
    } else {
      cpu::activate_in_place(share.row<float>(t), att.v.bias.as<float>(), c, Activation::sigmoid);
      cpu::lerp_to(v, v_first.row<float>(t), share.row<float>(t), c, v);
    }
    for (int64_t at = 0; at < c; at += att.head_size) {
      cpu::prepare_key(p.k.row<float>(t) + at, p.alpha.row<float>(t) + at, att.k_k.as<float>() + at,
                       att.k_a.as<float>() + at, att.head_size, p.kk.row<float>(t) + at);
    }
  });
}

void CpuIslands7::leave(const Batch&, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) {
  cpu::for_rows(pool_, y, [&](int64_t t) {
    cpu::normalise_heads(att.ln_x, att.head_size, y.cols, y.row<float>(t));
    for (int64_t at = 0; at < y.cols; at += att.head_size) {
      cpu::add_bonus(p.r.row<float>(t) + at, p.k.row<float>(t) + at, att.r_k.as<float>() + at,
                     p.v.row<float>(t) + at, att.head_size, y.row<float>(t) + at);
    }
    cpu::multiply_to(y.row<float>(t), p.g.row<float>(t), y.cols, y.row<float>(t));
  });
  cpu_.linear(y, att.output, pending);
}

void CpuIslands7::channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn,
                              Tensor x, Addend addend, StateField ffn_shift, Tensor pending) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  cpu::absorb_and_norm(pool_, x, addend, ffn.ln2, z);
  cpu::for_shifted_rows(pool_, batch, z, ffn_shift, [&](int64_t t, const float* previous) {
    cpu::lerp_to(z.row<float>(t), previous, ffn.mix.as<float>(), z.cols, mixed.row<float>(t));
  });
  cpu_.linear(mixed, ffn.key, hidden);
  cpu::activate_rows(pool_, hidden, Activation::relu_squared);
  if (ffn.deep_embed) {
    const Tensor scale = scratch.take(x.rows, ffn.key.out);
    deep_embed(batch, embedding, ffn, z, scale);
    cpu_.multiply(hidden, scale, hidden);
  }
  cpu_.linear(hidden, ffn.value, pending);
}

}  // namespace fulmar
