// Islands of RWKV-6 on a GPU: the stages and GEMMs that make up each. Where no stage supports the
// operands, the default island runs.
#include "gpu/islands/islands6.h"

#include "gpu/math/head_size.h"
#include "gpu/stages/heads.h"
#include "gpu/stages/lone_row.h"
#include "gpu/stages/low_rank.h"
#include "gpu/stages/rows.h"

namespace fulmar {

using gpu::Epilogue;
using gpu::Gemm;
using gpu::Prefetch;

void GpuIslands6::wkv(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                      Tensor y) {
  gpu::wkv6(gpu_.queue, batch, att, p, {state, y, gpu_.facts.multiprocessors});
}

void GpuIslands6::enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending,
                        StateField att_shift, std::span<const Tensor, 5> mixed) {
  Scratch scratch(ops_);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  if (!gpu_.facts.matrix_units || !gpu::suits_low_rank6(low, att.mix_w2[0])) {
    return Islands6::enter(batch, att, x, pending, att_shift, mixed);
  }
  const Tensor towards = scratch.take(x.rows, x.cols), previous = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{2, {att.mix_x.as<float>(), nullptr}, {towards, previous}};
  Prefetch next;
  if (batch.rows == 1) {
    next = gpu::prefetch_of({&att.receptance, &att.key, &att.value, &att.gate, &att.mix_w1},
                            gpu::kPrefetchSquare6);
  }
  const Tensor z = gpu_.enter(batch, {att.ln1, x, att_shift, mixes, {}}, pending, scratch, true, next);
  gpu_.gemm->run(gpu_.queue, {towards, att.mix_w1, low, Epilogue::tanh});
  gpu::mix6(gpu_.queue, att, z, previous, low, mixed);
}

void GpuIslands6::project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                          const Projected6& p) {
  const Tensor xw = mixed[0], xk = mixed[1], xv = mixed[2], xr = mixed[3], xg = mixed[4];
  Scratch scratch(ops_);
  const Tensor low = scratch.take(batch.rows, att.w.first.out);
  if (!gpu_.facts.matrix_units || !gpu::suits_low_rank6(low, att.w.second))
    return Islands6::project(batch, att, mixed, p);
  const Gemm products[] = {{xr, att.receptance, p.r},
                           {xk, att.key, p.k},
                           {xv, att.value, p.v},
                           {xg, att.gate, p.g, Epilogue::silu},
                           {xw, att.w.first, low, Epilogue::tanh}};
  constexpr size_t kLate = 2;  // the gate and the decay: the last two results may be late
  gpu_.gemm->run(products, kLate);
  const Prefetch next = batch.rows == 1 ? gpu::prefetch_of({&att.output}, gpu::kPrefetchSquare) : Prefetch{};
  gpu::decay6(gpu_.gemm->join(), att.w, low, p.u, next);
}

void GpuIslands6::recur(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                        Tensor y) {
  if (!gpu_.in_chunks(batch, att.head_size)) return wkv(batch, att, p, state, y);
  gpu_.for_short_sequences(batch, [&](const Batch& part) {
    gpu::wkv6(gpu_.queue, part, att, p, {state, y, gpu_.facts.multiprocessors, gpu::kMostRecurrentRows});
  });
  Scratch scratch(ops_);
  const auto bytes = gpu_.facts.matrix_units ? gpu::wkv6_chunk_workspace : gpu::wkv6_tiles_workspace;
  const Tensor workspace =
      scratch.take(1, static_cast<int64_t>(bytes(gpu_.chunks.count, att.n_head)), DType::u8);
  const auto run = gpu_.facts.matrix_units ? gpu::wkv6_chunk : gpu::wkv6_tiles;
  run(gpu_.without_pdl(), batch, att.u.as<float>(), p,
      {gpu_.chunks, att.n_head, state, y, workspace.data, gpu_.facts.multiprocessors});
}

void GpuIslands6::leave(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y,
                        Tensor pending) {
  if (att.head_size != gpu::kHeadSize) return Islands6::leave(batch, att, p, y, pending);
  gpu::leave_heads6(gpu_.queue, att, p.g, y);
  gpu_.gemm->run(gpu_.queue, {y, att.output, pending});
}

void GpuIslands6::attend(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                         Tensor y, Tensor pending) {
  if (!gpu_.ways.walk_leaves || att.head_size != gpu::kHeadSize || gpu_.in_chunks(batch, att.head_size)) {
    return Islands6::attend(batch, att, p, state, y, pending);
  }
  gpu::wkv6(gpu_.queue, batch, att, p, {state, y, gpu_.facts.multiprocessors, INT64_MAX, true});
  gpu_.gemm->run(gpu_.queue, {y, att.output, pending});
}

void GpuIslands6::channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                              StateField ffn_shift, Tensor pending) {
  Scratch scratch(ops_);
  const Tensor for_key = scratch.take(x.rows, x.cols), for_gate = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{2, {ffn.mix_k.as<float>(), ffn.mix_r.as<float>()}, {for_key, for_gate}};
  const Prefetch next = x.rows == 1 ? gpu::prefetch_of({&ffn.key}, gpu::kPrefetchKey) : Prefetch{};
  gpu_.enter(batch, {ffn.ln2, x, ffn_shift, mixes, {}}, addend, scratch, false, next);
  const int64_t count = gpu::ffn_row_parts(ffn.key, ffn.value, gpu_.facts.multiprocessors, ffn.receptance);
  if (x.rows == 1 && gpu_.ways.lone_row && count > 0) {
    const Tensor parts = scratch.take(count, x.cols, DType::f32);
    const gpu::FfnRowGate by{for_gate, ffn.receptance, gate};
    gpu::ffn_row(gpu_.queue, {{for_key, {}}, ffn.key, ffn.value, by, {}}, parts);
    return gpu::sum_parts(gpu_.queue, parts, pending, by);
  }
  if (gpu_.few_rows_parts(for_key, ffn.key, ffn.value) > 0) {
    gpu_.gemm->run(gpu_.queue, {for_gate, ffn.receptance, gate});
    gpu_.feed_forward(for_key, ffn.key, ffn.value, pending, scratch);
    return gpu::multiply_sigmoid(gpu_.queue, pending, gate);
  }
  const Tensor hidden = scratch.take(x.rows, ffn.key.out);
  const Gemm products[] = {{for_key, ffn.key, hidden, Epilogue::relu_squared},
                           {for_gate, ffn.receptance, gate}};
  gpu_.gemm->run(products, 1);
  gpu_.gemm->run(gpu_.queue, {hidden, ffn.value, pending});
  gpu::multiply_sigmoid(gpu_.gemm->join(), pending, gate);
}

}  // namespace fulmar
