// Islands of RWKV-6 in fewer passes over memory and fewer parallel sections than their default compositions:
// products of a stage together, everything elementwise around them row by row.
#include "cpu/islands6.h"

#include <cstring>

#include "cpu/cpu_backend.h"
#include "cpu/island_rows.h"

namespace fulmar {

CpuIslands6::CpuIslands6(CpuOps& cpu, ThreadPool& pool) : Islands6(cpu), cpu_(cpu), pool_(pool) {}

void CpuIslands6::enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending,
                        StateField att_shift, std::span<const Tensor, 5> mixed) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor previous = scratch.take(x.rows, x.cols);
  const Tensor base = scratch.take(x.rows, x.cols);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  cpu::absorb_and_norm(pool_, x, pending, att.ln1, z);
  cpu::for_shifted_rows(pool_, batch, z, att_shift, [&](int64_t t, const float* before) {
    std::memcpy(previous.row<float>(t), before, static_cast<size_t>(z.cols) * sizeof(float));
    cpu::lerp_to(z.row<float>(t), before, att.mix_x.as<float>(), z.cols, base.row<float>(t));
  });
  cpu_.linear(base, att.mix_w1, low);
  cpu::activate_rows(pool_, low, Activation::tanh);
  const int64_t rank = att.mix_w1.out / 5;
  LinearTask deltas[5];
  for (int i = 0; i < 5; i++) deltas[i] = {low.slice_cols(i * rank, rank), &att.mix_w2[i], mixed[i]};
  cpu_.products(deltas);
  cpu::for_rows(pool_, z, [&](int64_t t) {
    for (int i = 0; i < 5; i++) {
      float* out = mixed[i].row<float>(t);
      cpu::lerp_shifted_to(z.row<float>(t), previous.row<float>(t), att.mix.row<float>(i), out, z.cols, out);
    }
  });
}

void CpuIslands6::project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                          const Projected6& p) {
  Scratch scratch(ops_);
  const Tensor decay = scratch.take(batch.rows, att.w.first.out);
  const LinearTask tasks[] = {{mixed[3], &att.receptance, p.r},
                              {mixed[1], &att.key, p.k},
                              {mixed[2], &att.value, p.v},
                              {mixed[4], &att.gate, p.g},
                              {mixed[0], &att.w.first, decay}};
  cpu_.products(tasks);
  cpu::activate_rows(pool_, decay, Activation::tanh);
  cpu_.linear(decay, att.w.second, p.u);
  cpu::for_rows(pool_, p.u, [&](int64_t t) {
    cpu::add_to(p.u.row<float>(t), att.w.bias.as<float>(), p.u.cols);
    cpu::activate_in_place(p.g.row<float>(t), nullptr, p.g.cols, Activation::silu);
  });
}

void CpuIslands6::leave(const Batch&, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) {
  cpu::for_rows(pool_, y, [&](int64_t t) {
    cpu::normalise_heads(att.ln_x, att.head_size, y.cols, y.row<float>(t));
    cpu::multiply_to(y.row<float>(t), p.g.row<float>(t), y.cols, y.row<float>(t));
  });
  cpu_.linear(y, att.output, pending);
}

void CpuIslands6::channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                              StateField ffn_shift, Tensor pending) {
  Scratch scratch(ops_);
  const Tensor z = scratch.take(x.rows, x.cols);
  const Tensor for_key = scratch.take(x.rows, x.cols);
  const Tensor for_gate = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  cpu::absorb_and_norm(pool_, x, addend, ffn.ln2, z);
  cpu::for_shifted_rows(pool_, batch, z, ffn_shift, [&](int64_t t, const float* previous) {
    cpu::lerp_to(z.row<float>(t), previous, ffn.mix_k.as<float>(), z.cols, for_key.row<float>(t));
    cpu::lerp_to(z.row<float>(t), previous, ffn.mix_r.as<float>(), z.cols, for_gate.row<float>(t));
  });
  const LinearTask tasks[] = {{for_key, &ffn.key, hidden}, {for_gate, &ffn.receptance, gate}};
  cpu_.products(tasks);
  cpu::activate_rows(pool_, hidden, Activation::relu_squared);
  cpu_.linear(hidden, ffn.value, pending);
  cpu::for_rows(pool_, gate, [&](int64_t t) {
    cpu::activate_in_place(gate.row<float>(t), nullptr, gate.cols, Activation::sigmoid);
    cpu::multiply_to(pending.row<float>(t), gate.row<float>(t), gate.cols, pending.row<float>(t));
  });
}

}  // namespace fulmar
