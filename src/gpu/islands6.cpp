// Islands of RWKV-6 on the CUDA backend: the stages and GEMMs that make up each. Where no stage supports the
// operands, the default island runs.
#include "gpu/gpu_ops.h"
#include "gpu/math/head_size.h"
#include "gpu/stages/enter.h"
#include "gpu/stages/heads.h"
#include "gpu/stages/lone_row.h"
#include "gpu/stages/rows.h"

namespace fulmar {

using gpu::Epilogue;
using gpu::Gemm;
using gpu::Prefetch;

void GpuOps::enter6(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
                    std::span<const Tensor, 5> mixed) {
  Scratch scratch(*this);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  if (!facts_.matrix_units || !gpu::suits_low_rank6(low, att.mix_w2[0])) {
    return Ops::enter6(batch, att, x, pending, att_shift, mixed);
  }
  const Tensor towards = scratch.take(x.rows, x.cols), previous = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{2, {att.mix_x.as<float>(), nullptr}, {towards, previous}};
  Prefetch next;
  if (batch.rows == 1) {
    next = gpu::prefetch_of({&att.receptance, &att.key, &att.value, &att.gate, &att.mix_w1},
                            gpu::kPrefetchSquare6);
  }
  const Tensor z = enter(batch, att.ln1, x, pending, att_shift, mixes, scratch, true, next);
  gemm_->run(queue_, {towards, att.mix_w1, low, Epilogue::tanh});
  gpu::mix6(queue_, att, z, previous, low, mixed);
}

void GpuOps::project6(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                      const Projected6& p) {
  const Tensor xw = mixed[0], xk = mixed[1], xv = mixed[2], xr = mixed[3], xg = mixed[4];
  Scratch scratch(*this);
  const Tensor low = scratch.take(batch.rows, att.w.first.out);
  if (!facts_.matrix_units || !gpu::suits_low_rank6(low, att.w.second))
    return Ops::project6(batch, att, mixed, p);
  const Gemm products[] = {{xr, att.receptance, p.r},
                           {xk, att.key, p.k},
                           {xv, att.value, p.v},
                           {xg, att.gate, p.g, Epilogue::silu},
                           {xw, att.w.first, low, Epilogue::tanh}};
  constexpr size_t kLate = 2;  // the gate and the decay: the last two results may be late
  gemm_->run(products, kLate);
  const Prefetch next = batch.rows == 1 ? gpu::prefetch_of({&att.output}, gpu::kPrefetchSquare) : Prefetch{};
  gpu::decay6(gemm_->join(), att.w, low, p.u, next);
}

void GpuOps::recur6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y) {
  if (!in_chunks(batch, att.head_size)) return wkv6(batch, att, p, wkv, y);
  for_short_sequences(batch, [&](const Batch& part) {
    gpu::wkv6(queue_, part, att, p, wkv, y, gpu::kMostRecurrentRows, facts_.multiprocessors);
  });
  Scratch scratch(*this);
  const auto bytes = facts_.matrix_units ? gpu::wkv6_chunk_workspace : gpu::wkv6_tiles_workspace;
  const Tensor workspace = scratch.take(1, static_cast<int64_t>(bytes(chunks_.count, att.n_head)), DType::u8);
  const auto* bonus = att.u.as<float>();
  if (!facts_.matrix_units) {
    return gpu::wkv6_tiles(without_pdl(), batch, chunks_, att.n_head, bonus, p, wkv, y, workspace.data);
  }
  gpu::wkv6_chunk(without_pdl(), batch, chunks_, att.n_head, bonus, p, wkv, y, workspace.data,
                  facts_.multiprocessors);
}

void GpuOps::leave6(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) {
  if (att.head_size != gpu::kHeadSize) return Ops::leave6(batch, att, p, y, pending);
  gpu::leave_heads6(queue_, att, p.g, y);
  gemm_->run(queue_, {y, att.output, pending});
}

void GpuOps::attend6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y,
                     Tensor pending) {
  if (!ways_.walk_leaves || att.head_size != gpu::kHeadSize || in_chunks(batch, att.head_size)) {
    return Ops::attend6(batch, att, p, wkv, y, pending);
  }
  gpu::wkv6(queue_, batch, att, p, wkv, y, INT64_MAX, facts_.multiprocessors, true);
  gemm_->run(queue_, {y, att.output, pending});
}

void GpuOps::channel_mix6(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                          StateField ffn_shift, Tensor pending) {
  Scratch scratch(*this);
  const Tensor for_key = scratch.take(x.rows, x.cols), for_gate = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{2, {ffn.mix_k.as<float>(), ffn.mix_r.as<float>()}, {for_key, for_gate}};
  const Prefetch next = x.rows == 1 ? gpu::prefetch_of({&ffn.key}, gpu::kPrefetchKey) : Prefetch{};
  enter(batch, ffn.ln2, x, addend, ffn_shift, mixes, scratch, false, next);
  const int64_t count = gpu::ffn_row_parts(ffn.key, ffn.value, facts_.multiprocessors, ffn.receptance);
  if (x.rows == 1 && ways_.lone_row && count > 0) {
    const Tensor parts = scratch.take(count, x.cols, DType::f32);
    const gpu::FfnRowGate by{for_gate, ffn.receptance, gate};
    gpu::ffn_row(queue_, {{for_key, {}}, ffn.key, ffn.value, by, {}}, parts);
    return gpu::sum_parts(queue_, parts, pending, by);
  }
  if (few_rows_parts(for_key, ffn.key, ffn.value) > 0) {
    gemm_->run(queue_, {for_gate, ffn.receptance, gate});
    feed_forward(for_key, ffn.key, ffn.value, pending);
    return gpu::multiply_sigmoid(queue_, pending, gate);
  }
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  const Gemm products[] = {{for_key, ffn.key, hidden, Epilogue::relu_squared},
                           {for_gate, ffn.receptance, gate}};
  gemm_->run(products, 1);
  gemm_->run(queue_, {hidden, ffn.value, pending});
  gpu::multiply_sigmoid(gemm_->join(), pending, gate);
}

}  // namespace fulmar
