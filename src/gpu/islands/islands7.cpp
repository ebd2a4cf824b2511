// Islands of RWKV-7 on a GPU: the stages and GEMMs that make up each. Where no stage supports the
// operands, the default island runs; batch 1 is in row7.cpp.
#include "gpu/islands/islands7.h"

#include "gpu/math/head_size.h"
#include "gpu/stages/heads.h"
#include "gpu/stages/rows.h"

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

void GpuIslands7::key_prepare(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) {
  gpu::key_prepare7(gpu_.queue, att, k, alpha, kk);
}

void GpuIslands7::wkv(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                      Tensor y) {
  gpu::wkv7(gpu_.queue, batch, att, p, {state, y, gpu_.facts.multiprocessors});
}

void GpuIslands7::bonus(const TimeMix7& att, const Projected7& p, Tensor y) {
  gpu::bonus7(gpu_.queue, att, p, y);
}

void GpuIslands7::deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                             Tensor scale) {
  const int64_t rank = ffn.deep_rank;
  Scratch scratch(ops_);
  const Tensor wide = scratch.take(batch.rows, z.cols, DType::f32);
  const Tensor row = scratch.take(batch.rows, z.cols);
  const Tensor matrix = scratch.take(batch.rows, rank * rank);
  const Tensor low = scratch.take(batch.rows, rank), transformed = scratch.take(batch.rows, rank);
  ops_.embed(batch, embedding, wide);
  gpu::narrow(gpu_.queue, wide, row);
  ops_.linear(row, ffn.s_emb_x, matrix);
  ops_.linear(z, ffn.s1, low);
  gpu::transform_by_token(gpu_.queue, batch, ffn, matrix, low, transformed);
  ops_.linear(transformed, ffn.s2, scale);
  ops_.add_bias(scale, ffn.s0);
}

void GpuIslands7::enter(const Batch& batch, const TimeMix7& att, Tensor x, Addend pending,
                        StateField att_shift, std::span<const Tensor, 6> mixed) {
  gpu::Mixes mixes{6, {}, {}};
  for (int i = 0; i < 6; i++) {
    mixes.mix[i] = att.mix.row<float>(i);
    mixes.out[i] = mixed[static_cast<size_t>(i)];
  }
  Scratch scratch(ops_);
  gpu_.enter(batch, {att.ln1, x, att_shift, mixes, {}}, pending, scratch, false);
}

gpu::LowRows7 GpuIslands7::low_rows(Scratch& scratch, int64_t rows, const TimeMix7& att, bool first_block) {
  return {scratch.take(rows, att.w.first.out), scratch.take(rows, att.a.first.out),
          first_block ? Tensor{} : scratch.take(rows, att.v.first.out), scratch.take(rows, att.g.first.out)};
}

void GpuIslands7::project(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                          bool first_block, Tensor v_first, const Projected7& p) {
  if (!has_known_heads(att)) return Islands7::project(batch, att, mixed, first_block, v_first, p);
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  Scratch scratch(ops_);
  const gpu::LowRows7 low = low_rows(scratch, batch.rows, att, first_block);
  const Gemm all[] = {{xr, att.receptance, p.r},
                      {xk, att.key, p.k},
                      {xv, att.value, p.v},
                      {xg, att.g.first, low.g, Epilogue::sigmoid},
                      {xw, att.w.first, low.w, Epilogue::tanh},
                      {xa, att.a.first, low.a},
                      {xv, att.v.first, low.v}};
  const GemmList products(all, std::size(all) - (first_block ? 1 : 0));
  const bool two_launches = gpu_.ways.low_rank_end == gpu::LowRankEnd::two_launches;
  if (two_launches && project_few(products, att, first_block, v_first, low, p)) return;
  if (!two_launches && suits_second_halves7(att, first_block) && gpu_.gemm->together(products)) {
    gpu_.gemm->run(gpu_.queue, products);
    const bool few = batch.rows <= gpu::kMostLowRankRows || !gpu_.gemm->has_wgmma();
    if (few && gpu_.ways.low_rank_end == gpu::LowRankEnd::by_rows) {
      return gpu::low_rank_finish7(gpu_.queue, {att, first_block, v_first, low, p});
    }
    if constexpr (gpu::kHopperCode) {
      return gpu::finish_panels7(gpu_.queue, {att, first_block, v_first, low, p}, gpu_.facts.multiprocessors);
    }
  }
  const Tensor share = first_block ? Tensor{} : scratch.take(batch.rows, p.v.cols);
  gpu_.gemm->fork();
  low_rank_path(gpu_.gemm->side(0), xg, att.g, low.g, p.g, Epilogue::sigmoid);
  low_rank_path(gpu_.gemm->side(1), xw, att.w, low.w, p.u, Epilogue::tanh);
  low_rank_path(gpu_.gemm->side(0), xa, att.a, low.a, p.alpha);
  if (!first_block) low_rank_path(gpu_.gemm->side(1), xv, att.v, low.v, share);
  gpu_.gemm->run(gpu_.queue, products.first(3));
  gpu::finish_project7(gpu_.gemm->join(), att, first_block, v_first, share, p);
}

bool GpuIslands7::project_few(GemmList first, const TimeMix7& att, bool first_block, Tensor v_first,
                              const gpu::LowRows7& low, const Projected7& p) {
  Scratch scratch(ops_);
  const Tensor share = first_block ? Tensor{} : scratch.take(p.v.rows, p.v.cols);
  const Gemm all[] = {{low.g, att.g.second, p.g},
                      {low.w, att.w.second, p.u},
                      {low.a, att.a.second, p.alpha},
                      {low.v, att.v.second, share}};
  const GemmList second(all, std::size(all) - (first_block ? 1 : 0));
  if (!gpu_.gemm->together(first) || !gpu_.gemm->together(second)) return false;
  gpu_.gemm->run(gpu_.queue, first);
  gpu_.gemm->run(gpu_.queue, second);
  gpu::finish_project7(gpu_.queue, att, first_block, v_first, share, p);
  return true;
}

void GpuIslands7::low_rank_path(const Queue& queue, Tensor in, const LowRank& path, Tensor low, Tensor out,
                                Epilogue between) {
  gpu_.gemm->run(queue, {in, path.first, low, between});
  gpu_.gemm->run(queue, {low, path.second, out});
}

void GpuIslands7::recur(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                        Tensor y) {
  if (!gpu_.in_chunks(batch, att.head_size)) return wkv(batch, att, p, state, y);
  gpu_.for_short_sequences(batch, [&](const Batch& part) {
    gpu::wkv7(gpu_.queue, part, att, p, {state, y, gpu_.facts.multiprocessors, gpu::kMostRecurrentRows});
  });
  Scratch scratch(ops_);
  const Tensor workspace = chunk_workspace(scratch, att);
  prepare_walk(gpu_.without_pdl(), att, p, {}, workspace);
  walk(batch, att, state, y, workspace);
}

Tensor GpuIslands7::chunk_workspace(Scratch& scratch, const TimeMix7& att) const {
  const auto bytes = gpu_.facts.matrix_units ? gpu::wkv7_chunk_workspace : gpu::wkv7_tiles_workspace;
  return scratch.take(1, static_cast<int64_t>(bytes(gpu_.chunks.count, att.n_head)), DType::u8);
}

void GpuIslands7::prepare_walk(const Queue& queue, const TimeMix7& att, const Projected7& p,
                               const gpu::RawProjected7& raw, Tensor workspace) const {
  const auto prepare = gpu_.facts.matrix_units ? gpu::wkv7_chunk_prepare : gpu::wkv7_tiles_prepare;
  prepare(queue, gpu_.chunks, att.n_head, p, raw, workspace.data);
}

void GpuIslands7::walk(const Batch& batch, const TimeMix7& att, StateField state, Tensor y,
                       Tensor workspace) const {
  const auto walk = gpu_.facts.matrix_units ? gpu::wkv7_chunk_walk : gpu::wkv7_tiles_walk;
  walk(gpu_.without_pdl(), batch,
       {gpu_.chunks, att.n_head, state, y, workspace.data, gpu_.facts.multiprocessors});
}

void GpuIslands7::leave(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y,
                        Tensor pending) {
  if (!has_known_heads(att)) return Islands7::leave(batch, att, p, y, pending);
  gpu::leave_heads7(gpu_.queue, att, p, y);
  gpu_.gemm->run(gpu_.queue, {y, att.output, pending});
}

void GpuIslands7::attend(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
                         Tensor y, Tensor pending) {
  if (!gpu_.ways.walk_leaves || !has_known_heads(att) || gpu_.in_chunks(batch, att.head_size)) {
    return Islands7::attend(batch, att, p, state, y, pending);
  }
  gpu::wkv7(gpu_.queue, batch, att, p, {state, y, gpu_.facts.multiprocessors, INT64_MAX, true});
  gpu_.gemm->run(gpu_.queue, {y, att.output, pending});
}

void GpuIslands7::time_mix(const Batch& batch, const TimeMix7& att, bool first_block, const Block7Work& work,
                           StateField state) {
  const bool all_chunked =
      gpu_.ways.raw_chunks && gpu_.in_chunks(batch, att.head_size) && gpu_.plan.short_sequences == 0;
  if (all_chunked && batch.rows > gpu::kMostLowRankRows) {
    return chunked_time_mix(batch, att, first_block, work, state);
  }
  Islands7::time_mix(batch, att, first_block, work, state);
}

void GpuIslands7::chunked_time_mix(const Batch& batch, const TimeMix7& att, bool first_block,
                                   const Block7Work& work, StateField state) {
  const Projected7& p = work.p;
  Scratch scratch(ops_);
  const gpu::LowRows7 low = low_rows(scratch, batch.rows, att, first_block);
  const Tensor share = first_block ? Tensor{} : scratch.take(batch.rows, p.v.cols);
  const Tensor agreement = scratch.take(batch.rows, att.n_head, DType::f32);
  const Tensor workspace = chunk_workspace(scratch, att);
  const auto& [xr, xw, xk, xv, xa, xg] = work.mixed;
  gpu_.gemm->fork();
  low_rank_path(gpu_.gemm->side(0), xw, att.w, low.w, p.u, Epilogue::tanh);
  low_rank_path(gpu_.gemm->side(0), xa, att.a, low.a, p.alpha);
  if (!first_block) low_rank_path(gpu_.gemm->side(1), xv, att.v, low.v, share);
  const Gemm large[] = {{xr, att.receptance, p.r}, {xk, att.key, p.k}, {xv, att.value, p.v}};
  gpu_.gemm->run(gpu_.queue, large);
  prepare_walk(gpu_.gemm->join(), att, p, {&att, share, work.v_first, agreement}, workspace);
  gpu_.gemm->fork();  // the walk leaves SMs idle, which the gate's GEMMs can use
  walk(batch, att, state, work.y, workspace);
  low_rank_path(gpu_.gemm->side(0), xg, att.g, low.g, p.g, Epilogue::sigmoid);
  gpu::leave_heads7(gpu_.gemm->join(), att, agreement, p.v, p.g, work.y);
  gpu_.gemm->run(gpu_.queue, {work.y, att.output, work.pending});
}

void GpuIslands7::channel_mix(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn,
                              Tensor x, Addend addend, StateField ffn_shift, Tensor pending) {
  Scratch scratch(ops_);
  const Tensor mixed = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{1, {ffn.mix.as<float>()}, {mixed}};
  const Tensor z = gpu_.enter(batch, {ffn.ln2, x, ffn_shift, mixes, {}}, addend, scratch, ffn.deep_embed);
  if (!ffn.deep_embed) return gpu_.feed_forward(mixed, ffn.key, ffn.value, pending, scratch);
  const Tensor hidden = scratch.take(x.rows, ffn.key.out), scale = scratch.take(x.rows, ffn.key.out);
  gpu_.gemm->run(gpu_.queue, {mixed, ffn.key, hidden, Epilogue::relu_squared});
  deep_embed(batch, embedding, ffn, z, scale);
  ops_.multiply(hidden, scale, hidden);
  gpu_.gemm->run(gpu_.queue, {hidden, ffn.value, pending});
}

}  // namespace fulmar
