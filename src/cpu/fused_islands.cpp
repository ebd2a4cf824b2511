// Islands in fewer passes over memory and fewer parallel sections than their default compositions: products
// of a stage together, everything elementwise around them row by row.
#include <algorithm>
#include <cstring>

#include "cpu/cpu_backend.h"
#include "cpu/row_math.h"

namespace fulmar {

namespace {

constexpr int64_t kElementsPerTask = 16 * 1024;

template <class Body>
void for_rows(ThreadPool& pool, Tensor x, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, x.cols));
  pool.parallel_for(x.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) body(t);
  });
}

// x += pending; z = norm(x)
void absorb_and_norm(ThreadPool& pool, Tensor x, const Addend& addend, const Norm& norm, Tensor z) {
  const Tensor pending = addend.joined(x);
  for_rows(pool, x, [&](int64_t t) {
    float* row = x.row<float>(t);
    if (!pending.empty()) cpu::add_to(row, pending.row<float>(t), x.cols);
    cpu::normalise(row, norm.weight.as<float>(), norm.bias.as<float>(), x.cols, kLayerNormEps,
                   z.row<float>(t));
  });
}

// body(t, previous) for every row, with the row before it in its sequence. The carried vector is replaced by
// the sequence's last row as soon as its only reader, the first row, is done.
template <class Body>
void for_shifted_rows(ThreadPool& pool, const Batch& batch, Tensor z, StateField carry, const Body& body) {
  for_rows(pool, z, [&](int64_t t) {
    const int32_t s = batch.sequence_of[t];
    if (t != batch.start[s]) return body(t, z.row<float>(t - 1));
    float* carried = carry.at<float>(batch.slot[s]);
    body(t, carried);
    std::memcpy(carried, z.row<float>(batch.start[s + 1] - 1), static_cast<size_t>(z.cols) * sizeof(float));
  });
  cpu::keep_shifts(pool, batch, z, carry);
}

void activate_rows(ThreadPool& pool, Tensor x, Activation act) {
  for_rows(pool, x, [&](int64_t t) { cpu::activate_in_place(x.row<float>(t), nullptr, x.cols, act); });
}

}  // namespace

void CpuOps::enter7(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
                    std::span<const Tensor, 6> mixed) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  absorb_and_norm(pool_, x, pending, att.ln1, z);
  for_shifted_rows(pool_, batch, z, att_shift, [&](int64_t t, const float* previous) {
    for (int i = 0; i < 6; i++) {
      cpu::lerp_to(z.row<float>(t), previous, att.mix.row<float>(i), z.cols, mixed[i].row<float>(t));
    }
  });
}

void CpuOps::project7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                      bool first_block, Tensor v_first, const Projected7& p) {
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  Scratch scratch(*this);
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
  products(std::span(first).first(first_block ? 6 : 7));
  activate_rows(pool_, decay, Activation::tanh);
  activate_rows(pool_, gate, Activation::sigmoid);
  products(std::span(second).first(first_block ? 3 : 4));

  for_rows(pool_, p.r, [&](int64_t t) {
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

void CpuOps::leave7(const Batch&, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) {
  for_rows(pool_, y, [&](int64_t t) {
    const int64_t n = att.head_size;
    for (int64_t at = 0; at < y.cols; at += n) {
      float* head = y.row<float>(t) + at;
      cpu::normalise(head, att.ln_x.weight.as<float>() + at, att.ln_x.bias.as<float>() + at, n, kHeadNormEps,
                     head);
      cpu::add_bonus(p.r.row<float>(t) + at, p.k.row<float>(t) + at, att.r_k.as<float>() + at,
                     p.v.row<float>(t) + at, n, head);
    }
    cpu::multiply_to(y.row<float>(t), p.g.row<float>(t), y.cols, y.row<float>(t));
  });
  linear(y, att.output, pending);
}

void CpuOps::channel_mix7(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                          Addend addend, StateField ffn_shift, Tensor pending) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  absorb_and_norm(pool_, x, addend, ffn.ln2, z);
  for_shifted_rows(pool_, batch, z, ffn_shift, [&](int64_t t, const float* previous) {
    cpu::lerp_to(z.row<float>(t), previous, ffn.mix.as<float>(), z.cols, mixed.row<float>(t));
  });
  linear(mixed, ffn.key, hidden);
  activate_rows(pool_, hidden, Activation::relu_squared);
  if (ffn.deep_embed) {
    const Tensor scale = scratch.take(x.rows, ffn.key.out);
    deep_embed(batch, embedding, ffn, z, scale);
    multiply(hidden, scale, hidden);
  }
  linear(hidden, ffn.value, pending);
}

void CpuOps::enter6(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
                    std::span<const Tensor, 5> mixed) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  const Tensor base = scratch.take(x.rows, x.cols);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  absorb_and_norm(pool_, x, pending, att.ln1, z);
  for_shifted_rows(pool_, batch, z, att_shift, [&](int64_t t, const float* before) {
    std::memcpy(previous.row<float>(t), before, static_cast<size_t>(z.cols) * sizeof(float));
    cpu::lerp_to(z.row<float>(t), before, att.mix_x.as<float>(), z.cols, base.row<float>(t));
  });
  linear(base, att.mix_w1, low);
  activate_rows(pool_, low, Activation::tanh);
  const int64_t rank = att.mix_w1.out / 5;
  LinearTask deltas[5];
  for (int i = 0; i < 5; i++) deltas[i] = {low.slice_cols(i * rank, rank), &att.mix_w2[i], mixed[i]};
  products(deltas);
  for_rows(pool_, z, [&](int64_t t) {
    for (int i = 0; i < 5; i++) {
      float* out = mixed[i].row<float>(t);
      cpu::lerp_shifted_to(z.row<float>(t), previous.row<float>(t), att.mix.row<float>(i), out, z.cols, out);
    }
  });
}

void CpuOps::project6(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                      const Projected6& p) {
  Scratch scratch(*this);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  const LinearTask tasks[] = {{mixed[3], &att.receptance, p.r},
                              {mixed[1], &att.key, p.k},
                              {mixed[2], &att.value, p.v},
                              {mixed[4], &att.gate, p.g},
                              {mixed[0], &att.w.first, decay}};
  products(tasks);
  activate_rows(pool_, decay, Activation::tanh);
  linear(decay, att.w.second, p.u);
  for_rows(pool_, p.u, [&](int64_t t) {
    cpu::add_to(p.u.row<float>(t), att.w.bias.as<float>(), p.u.cols);
    cpu::activate_in_place(p.g.row<float>(t), nullptr, p.g.cols, Activation::silu);
  });
}

void CpuOps::leave6(const Batch&, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) {
  for_rows(pool_, y, [&](int64_t t) {
    const int64_t n = att.head_size;
    for (int64_t at = 0; at < y.cols; at += n) {
      float* head = y.row<float>(t) + at;
      cpu::normalise(head, att.ln_x.weight.as<float>() + at, att.ln_x.bias.as<float>() + at, n, kHeadNormEps,
                     head);
    }
    cpu::multiply_to(y.row<float>(t), p.g.row<float>(t), y.cols, y.row<float>(t));
  });
  linear(y, att.output, pending);
}

void CpuOps::channel_mix6(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                          StateField ffn_shift, Tensor pending) {
  Scratch scratch(*this);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor for_key = scratch.take(x.rows, x.cols);
  const Tensor for_gate = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  absorb_and_norm(pool_, x, addend, ffn.ln2, z);
  for_shifted_rows(pool_, batch, z, ffn_shift, [&](int64_t t, const float* previous) {
    cpu::lerp_to(z.row<float>(t), previous, ffn.mix_k.as<float>(), z.cols, for_key.row<float>(t));
    cpu::lerp_to(z.row<float>(t), previous, ffn.mix_r.as<float>(), z.cols, for_gate.row<float>(t));
  });
  const LinearTask tasks[] = {{for_key, &ffn.key, hidden}, {for_gate, &ffn.receptance, gate}};
  products(tasks);
  activate_rows(pool_, hidden, Activation::relu_squared);
  linear(hidden, ffn.value, pending);
  for_rows(pool_, gate, [&](int64_t t) {
    cpu::activate_in_place(gate.row<float>(t), nullptr, gate.cols, Activation::sigmoid);
    cpu::multiply_to(pending.row<float>(t), gate.row<float>(t), gate.cols, pending.row<float>(t));
  });
}

}  // namespace fulmar
