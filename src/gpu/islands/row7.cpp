// A block of RWKV-7 at batch 1: fused kernels that keep vectors between them in f32 precision and add to the
// residual stream directly.
#include "gpu/gemm/layout/packed.h"
#include "gpu/islands/islands7.h"
#include "gpu/stages/ffn_packed.h"
#include "gpu/stages/lone_row.h"

namespace fulmar {

using gpu::Epilogue;
using gpu::GemmDispatcher;
using gpu::Gemv;
using gpu::Pair;
using gpu::RowMix;

Pair GpuIslands7::take_pair(Scratch& scratch, int64_t cols) {
  return {scratch.take(1, cols), scratch.take(1, cols)};
}

int64_t GpuIslands7::lone_row_parts(const Weight& key, const Weight& value) const {
  if (gpu::is_packed(key)) return gpu::ffn_packed_parts(1, key, value, gpu_.facts);
  return gpu::ffn_row_parts(key, value, gpu_.facts.multiprocessors);
}

bool GpuIslands7::suits_row(const TimeMix7& att, const ChannelMix7& ffn, bool first_block) const {
  if (!gpu_.ways.lone_row) return false;
  for (const LowRank* path : {&att.w, &att.a, &att.g, &att.v}) {
    if (path == &att.v && first_block) continue;
    if (!GemmDispatcher::suits_lone_row(path->first)) return false;
  }
  for (const Weight* matrix : {&att.receptance, &att.key, &att.value, &att.output}) {
    if (!GemmDispatcher::suits_lone_row(*matrix)) return false;
  }
  return gpu::suits_attend_row7(att, first_block) && !ffn.deep_embed &&
         (lone_row_parts(ffn.key, ffn.value) > 0 ||
          (GemmDispatcher::suits_lone_row(ffn.key) && GemmDispatcher::suits_lone_value(ffn.value)));
}

bool GpuIslands7::block(const Batch& batch, const Block7& block, Tensor x, const Block7Work& work,
                        const Block7State& state) {
  const auto& [att, ffn, first_block] = block;
  if (batch.rows != 1 || work.v_first_wide.empty() || !suits_row(att, ffn, first_block)) return false;
  // Tensor parallel: each rank computes its addend in f32 and the all-reduce adds it, so no epilogue adds to
  // x.
  const bool summed = work.ranks != nullptr;
  if (summed && lone_row_parts(ffn.key, ffn.value) == 0) return false;
  time_mix_row(batch, att, first_block, x, work, state);
  channel_mix_row(batch, ffn, x, state.ffn_shift, work.ranks);
  return true;
}

void GpuIslands7::time_mix_row(const Batch& batch, const TimeMix7& att, bool first_block, Tensor x,
                               const Block7Work& work, const Block7State& state) {
  Scratch scratch(ops_);
  const int64_t width = att.output.in;
  const auto wide = [&](int64_t cols) { return scratch.take(1, cols, DType::f32); };
  const gpu::RowValues7 values{wide(width), wide(width), wide(width), work.v_first_wide, work.v_first};
  const auto low = [&](const LowRank& path) { return take_pair(scratch, path.first.out); };
  const gpu::LowPairs7 lows{low(att.w), low(att.a), first_block ? Pair{} : low(att.v), low(att.g)};
  constexpr int kMixes = 6, kMixOf[] = {0, 2, 3, 5, 1, 4, 3};  // mixes r w k v a g; each GEMM's
  Gemv list[] = {{{}, att.receptance, {values.r, {}}},
                 {{}, att.key, {values.k, {}}},
                 {{}, att.value, {values.v, {}}},
                 {{}, att.g.first, lows.g, Epilogue::sigmoid},
                 {{}, att.w.first, lows.w, Epilogue::tanh},
                 {{}, att.a.first, lows.a},
                 {{}, att.v.first, lows.v}};
  for (size_t i = 0; i < std::size(list); i++) list[i].mix = att.mix.row<float>(kMixOf[i]);
  const std::span products(list, std::size(list) - (first_block ? 1 : 0));
  gpu::RowNorm norm;
  // In tensor parallel a rank's heads are not the whole row, so it cannot update the shift of a norm fused
  // into its GEMMs.
  if (work.ranks == nullptr && gpu_.gemm->makes_inputs(products)) {
    norm = {&att.ln1, x, state.att_shift, batch.slot, wide(x.cols)};
  } else {
    RowMix mixes[kMixes];
    for (int i = 0; i < kMixes; i++) mixes[i] = {att.mix.row<float>(i), take_pair(scratch, x.cols)};
    for (size_t i = 0; i < std::size(list); i++) list[i].in = mixes[kMixOf[i]].out;
    gpu::enter_row(
        gpu_.queue, batch, att.ln1, x, state.att_shift, mixes,
        gpu::prefetch_of({&att.receptance, &att.g.second, &att.w.second, &att.a.second, &att.v.second},
                         gpu::kPrefetchSquare));
  }
  gpu_.gemm->run_row(products, norm);

  const Pair y = take_pair(scratch, width);
  gpu::attend_row7(gpu_.queue, batch, {att, first_block, lows, values, state.wkv, y, norm},
                   gpu::prefetch_of({&att.output}, gpu::kPrefetchSquare));
  const bool alone = work.ranks == nullptr;
  const Tensor sum = alone ? x : wide(x.cols);
  const Gemv output[] = {{y, att.output, {sum, {}}, Epilogue::none, alone}};
  gpu_.gemm->run_row(output);
  if (!alone) work.ranks->add_sum(sum, x);
}

void GpuIslands7::channel_mix_row(const Batch& batch, const ChannelMix7& ffn, Tensor x, StateField ffn_shift,
                                  Collective* ranks) {
  Scratch scratch(ops_);
  gpu::FfnRow row{{}, ffn.key, ffn.value, {}, {}, ffn.mix.as<float>()};
  const int64_t count = lone_row_parts(ffn.key, ffn.value);
  const bool packed = gpu::is_packed(ffn.key);
  if (count > 0 && !packed && x.cols <= gpu::kMostMadeCols) {
    row.norm = {&ffn.ln2, x, ffn_shift, batch.slot, scratch.take(1, x.cols, DType::f32)};
  } else {
    row.in = take_pair(scratch, x.cols);
    const RowMix mix{row.mix, row.in};
    gpu::enter_row(gpu_.queue, batch, ffn.ln2, x, ffn_shift, {&mix, 1},
                   gpu::prefetch_of({&ffn.key}, gpu::kPrefetchKey));
  }
  if (count == 0) {
    const Tensor hidden = scratch.take(1, ffn.key.out);
    const Gemv key[] = {{row.in, ffn.key, {hidden, {}}, Epilogue::relu_squared}};
    gpu_.gemm->run_row(key);
    return gpu_.gemm->add_lone_value(hidden, ffn.value, x);
  }
  const Tensor parts = scratch.take(count, x.cols, DType::f32);
  packed ? gpu::ffn_packed(gpu_.queue, row.in, ffn.key, ffn.value, parts)
         : gpu::ffn_row(gpu_.queue, row, parts);
  if (ranks == nullptr) return gpu::sum_parts(gpu_.queue, parts, x, {}, row.norm);
  if (row.norm.norm == nullptr) return ranks->add_sum(parts, x);
  const Tensor sum = scratch.take(1, x.cols, DType::f32);
  gpu::sum_parts(gpu_.queue, parts, sum, {}, row.norm, false);
  ranks->add_sum(sum, x);
}

}  // namespace fulmar
