// Islands of RWKV-7 on the CUDA backend: the stages and GEMMs that make up each. Where no stage supports the
// operands, the default island runs; batch 1 is in row7.cpp.
#include "base/check.h"
#include "gpu/gpu_ops.h"
#include "gpu/math/head_size.h"
#include "gpu/stages/enter.h"
#include "gpu/stages/heads.h"

namespace fulmar {

using gpu::Epilogue;
using gpu::Gemm;
using gpu::GemmList;
using gpu::Queue;

namespace {

bool has_known_heads(const TimeMix7& att) { return att.head_size == gpu::kHeadSize; }

// Returns whether low_rank_finish7 and finish_panels7 support the second low-rank matrices.
bool suits_second_halves7(const TimeMix7& att, bool first_block) {
  for (const LowRank* path : {&att.w, &att.a, &att.g, &att.v}) {
    if (path == &att.v && first_block) continue;
    if (!gpu::suits_second_half7(path->second)) return false;
  }
  return true;
}

}  // namespace

void GpuOps::enter7(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending, StateField att_shift,
                    std::span<const Tensor, 6> mixed) {
  gpu::Mixes mixes{6, {}, {}};
  for (int i = 0; i < 6; i++) {
    mixes.mix[i] = att.mix.row<float>(i);
    mixes.out[i] = mixed[static_cast<size_t>(i)];
  }
  Scratch scratch(*this);
  enter(batch, att.ln1, x, pending, att_shift, mixes, scratch, false);
}

gpu::LowRows7 GpuOps::low_rows7(Scratch& scratch, int64_t rows, const TimeMix7& att, bool first_block) {
  return {scratch.take(rows, att.w.first.out), scratch.take(rows, att.a.first.out),
          first_block ? Tensor{} : scratch.take(rows, att.v.first.out), scratch.take(rows, att.g.first.out)};
}

void GpuOps::project7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                      bool first_block, Tensor v_first, const Projected7& p) {
  if (!has_known_heads(att)) return Ops::project7(batch, att, mixed, first_block, v_first, p);
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  Scratch scratch(*this);
  const gpu::LowRows7 low = low_rows7(scratch, batch.rows, att, first_block);
  const Gemm all[] = {{xr, att.receptance, p.r},
                      {xk, att.key, p.k},
                      {xv, att.value, p.v},
                      {xg, att.g.first, low.g, Epilogue::sigmoid},
                      {xw, att.w.first, low.w, Epilogue::tanh},
                      {xa, att.a.first, low.a},
                      {xv, att.v.first, low.v}};
  const GemmList products(all, std::size(all) - (first_block ? 1 : 0));
  const bool two_launches = ways_.low_rank_end == gpu::LowRankEnd::two_launches;
  if (two_launches && project_few7(products, att, first_block, v_first, low, p)) return;
  if (!two_launches && suits_second_halves7(att, first_block) && gemm_->together(products)) {
    gemm_->run(queue_, products);
    const bool few = batch.rows <= gpu::kMostLowRankRows || !gemm_->has_wgmma();
    if (few && ways_.low_rank_end == gpu::LowRankEnd::by_rows) {
      return gpu::low_rank_finish7(queue_, att, first_block, v_first, low, p);
    }
    if constexpr (gpu::kHopperCode) {
      return gpu::finish_panels7(queue_, att, first_block, v_first, low, p, facts_.multiprocessors);
    }
  }
  const Tensor share = first_block ? Tensor{} : scratch.take(batch.rows, p.v.cols);
  gemm_->fork();
  low_rank_path(gemm_->side(0), xg, att.g, low.g, p.g, Epilogue::sigmoid);
  low_rank_path(gemm_->side(1), xw, att.w, low.w, p.u, Epilogue::tanh);
  low_rank_path(gemm_->side(0), xa, att.a, low.a, p.alpha);
  if (!first_block) low_rank_path(gemm_->side(1), xv, att.v, low.v, share);
  gemm_->run(queue_, products.first(3));
  gpu::finish_project7(gemm_->join(), att, first_block, v_first, share, p);
}

bool GpuOps::project_few7(GemmList first, const TimeMix7& att, bool first_block, Tensor v_first,
                          const gpu::LowRows7& low, const Projected7& p) {
  Scratch scratch(*this);
  const Tensor share = first_block ? Tensor{} : scratch.take(p.v.rows, p.v.cols);
  const Gemm all[] = {{low.g, att.g.second, p.g},
                      {low.w, att.w.second, p.u},
                      {low.a, att.a.second, p.alpha},
                      {low.v, att.v.second, share}};
  const GemmList second(all, std::size(all) - (first_block ? 1 : 0));
  if (!gemm_->together(first) || !gemm_->together(second)) return false;
  gemm_->run(queue_, first);
  gemm_->run(queue_, second);
  gpu::finish_project7(queue_, att, first_block, v_first, share, p);
  return true;
}

void GpuOps::low_rank_path(const Queue& queue, Tensor in, const LowRank& path, Tensor low, Tensor out,
                           Epilogue between) {
  gemm_->run(queue, {in, path.first, low, between});
  gemm_->run(queue, {low, path.second, out});
}

void GpuOps::recur7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y) {
  if (!in_chunks(batch, att.head_size)) return wkv7(batch, att, p, wkv, y);
  for_short_sequences(batch, [&](const Batch& part) {
    gpu::wkv7(queue_, part, att, p, wkv, y, gpu::kMostRecurrentRows, facts_.multiprocessors);
  });
  Scratch scratch(*this);
  const Tensor workspace = chunk_workspace7(scratch, att);
  prepare_walk7(without_pdl(), att, p, {}, workspace);
  walk7(batch, att, wkv, y, workspace);
}

Tensor GpuOps::chunk_workspace7(Scratch& scratch, const TimeMix7& att) const {
  const auto bytes = facts_.matrix_units ? gpu::wkv7_chunk_workspace : gpu::wkv7_tiles_workspace;
  return scratch.take(1, static_cast<int64_t>(bytes(chunks_.count, att.n_head)), DType::u8);
}

void GpuOps::prepare_walk7(const Queue& queue, const TimeMix7& att, const Projected7& p,
                           const gpu::RawProjected7& raw, Tensor workspace) const {
  const auto prepare = facts_.matrix_units ? gpu::wkv7_chunk_prepare : gpu::wkv7_tiles_prepare;
  prepare(queue, chunks_, att.n_head, p, raw, workspace.data);
}

void GpuOps::walk7(const Batch& batch, const TimeMix7& att, StateField wkv, Tensor y,
                   Tensor workspace) const {
  const Queue queue = without_pdl();
  if (!facts_.matrix_units) {
    return gpu::wkv7_tiles_walk(queue, batch, chunks_, att.n_head, wkv, y, workspace.data);
  }
  gpu::wkv7_chunk_walk(queue, batch, chunks_, att.n_head, wkv, y, workspace.data, facts_.multiprocessors);
}

void GpuOps::leave7(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) {
  if (!has_known_heads(att)) return Ops::leave7(batch, att, p, y, pending);
  gpu::leave_heads7(queue_, att, p, y);
  gemm_->run(queue_, {y, att.output, pending});
}

void GpuOps::attend7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y,
                     Tensor pending) {
  if (!ways_.walk_leaves || !has_known_heads(att) || in_chunks(batch, att.head_size)) {
    return Ops::attend7(batch, att, p, wkv, y, pending);
  }
  gpu::wkv7(queue_, batch, att, p, wkv, y, INT64_MAX, facts_.multiprocessors, true);
  gemm_->run(queue_, {y, att.output, pending});
}

void GpuOps::time_mix7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                       bool first_block, Tensor v_first, const Projected7& p, StateField wkv, Tensor y,
                       Tensor pending) {
  const bool all_chunked = ways_.raw_chunks && in_chunks(batch, att.head_size) && plan_.short_sequences == 0;
  if (all_chunked && batch.rows > gpu::kMostLowRankRows) {
    return chunked_time_mix7(batch, att, mixed, first_block, v_first, p, wkv, y, pending);
  }
  Ops::time_mix7(batch, att, mixed, first_block, v_first, p, wkv, y, pending);
}

void GpuOps::chunked_time_mix7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                               bool first_block, Tensor v_first, const Projected7& p, StateField wkv,
                               Tensor y, Tensor pending) {
  Scratch scratch(*this);
  const gpu::LowRows7 low = low_rows7(scratch, batch.rows, att, first_block);
  const Tensor share = first_block ? Tensor{} : scratch.take(batch.rows, p.v.cols);
  const Tensor agreement = scratch.take(batch.rows, att.n_head, DType::f32);
  const Tensor workspace = chunk_workspace7(scratch, att);
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  gemm_->fork();
  low_rank_path(gemm_->side(0), xw, att.w, low.w, p.u, Epilogue::tanh);
  low_rank_path(gemm_->side(0), xa, att.a, low.a, p.alpha);
  if (!first_block) low_rank_path(gemm_->side(1), xv, att.v, low.v, share);
  const Gemm large[] = {{xr, att.receptance, p.r}, {xk, att.key, p.k}, {xv, att.value, p.v}};
  gemm_->run(queue_, large);
  prepare_walk7(gemm_->join(), att, p, {&att, share, v_first, agreement}, workspace);
  gemm_->fork();  // the walk leaves SMs idle, which the gate's GEMMs can use
  walk7(batch, att, wkv, y, workspace);
  low_rank_path(gemm_->side(0), xg, att.g, low.g, p.g, Epilogue::sigmoid);
  gpu::leave_heads7(gemm_->join(), att, agreement, p.v, p.g, y);
  gemm_->run(queue_, {y, att.output, pending});
}

void GpuOps::channel_mix7(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                          Addend addend, StateField ffn_shift, Tensor pending) {
  Scratch scratch(*this);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{1, {ffn.mix.as<float>()}, {mixed}};
  const Tensor z = enter(batch, ffn.ln2, x, addend, ffn_shift, mixes, scratch, ffn.deep_embed);
  if (!ffn.deep_embed) return feed_forward(mixed, ffn.key, ffn.value, pending);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out), scale = scratch.take(x.rows, ffn.key.out);
  gemm_->run(queue_, {mixed, ffn.key, hidden, Epilogue::relu_squared});
  deep_embed(batch, embedding, ffn, z, scale);
  multiply(hidden, scale, hidden);
  gemm_->run(queue_, {hidden, ffn.value, pending});
}

}  // namespace fulmar
