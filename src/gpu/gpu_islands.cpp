// Islands of the CUDA backend: which kernels and products make up each of them, by shape. What no kernel
// suits falls back to the default composition.
#include <algorithm>
#include <initializer_list>

#include "base/check.h"
#include "gpu/gpu_ops.h"
#include "gpu/linear_choice.h"
#include "gpu/row_kernels.h"

namespace fulmar {

namespace {

using gpu::Epilogue;
using gpu::Queue;
using gpu::worth_timing;

constexpr int64_t kHead = 64;  // channels of a head that the fused islands know

}  // namespace

void GpuOps::enter7(const Batch& batch, const TimeMix7& att, Tensor x, Tensor pending, StateField att_shift,
                    std::span<const Tensor, 6> mixed) {
  gpu::Mixes mixes{6, {}, {}};
  for (int i = 0; i < 6; i++) {
    mixes.mix[i] = att.mix.row<float>(i);
    mixes.out[i] = mixed[static_cast<size_t>(i)];
  }
  Scratch scratch(*this);
  enter(batch, att.ln1, x, pending, att_shift, mixes, scratch, false);
}

void GpuOps::project7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                      bool first_block, Tensor v_first, const Projected7& p) {
  if (att.head_size != kHead) return Ops::project7(batch, att, mixed, first_block, v_first, p);
  Scratch scratch(*this);
  const gpu::LowRows7 low = low_rows7(scratch, batch.rows, att, first_block);
  if (!suits_low_rank7(att, mixed[0], first_block)) {
    return project_by_library7(batch, att, mixed, first_block, v_first, p, low, scratch);
  }
  first_products7(att, mixed, first_block, p, low, scratch);
  if (batch.rows <= gpu::kMostTiledRows)
    return gpu::low_rank_finish7(queue_, att, first_block, v_first, low, p);
  gpu::finish_panels7(queue_, att, first_block, v_first, low, p, facts_.multiprocessors);
}

void GpuOps::recur7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y) {
  if (att.head_size != kHead || batch.longest <= gpu::kMostRecurrentRows) return wkv7(batch, att, p, wkv, y);
  if (plan_.short_sequences > 0) {
    gpu::wkv7(queue_, batch, att, p, wkv, y, gpu::kMostRecurrentRows);
  }
  Scratch scratch(*this);
  const Tensor workspace = chunk_workspace7(scratch, att);
  gpu::wkv7_chunk_prepare(unhurried(), chunks_, att.n_head, p, {}, workspace.data);
  gpu::wkv7_chunk_walk(unhurried(), batch, chunks_, att.n_head, wkv, y, workspace.data,
                       facts_.multiprocessors);
}

void GpuOps::leave7(const Batch& batch, const TimeMix7& att, const Projected7& p, Tensor y, Tensor pending) {
  if (att.head_size != kHead) return Ops::leave7(batch, att, p, y, pending);
  gpu::leave_heads7(queue_, att, p, y);
  linear(y, att.output, pending);
}

void GpuOps::attend7(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv, Tensor y,
                     Tensor pending) {
  if (att.head_size != kHead || batch.longest > gpu::kMostRecurrentRows) {
    return Ops::attend7(batch, att, p, wkv, y, pending);
  }
  gpu::wkv7(queue_, batch, att, p, wkv, y, INT64_MAX, true);
  Scratch scratch(*this);
  const bool by_panels =
      has_panels() && batch.rows > gpu::kMostOwnRows && batch.rows <= gpu::kMostPanelOutputRows;
  if (by_panels && own_products({{y, att.output, pending}}, scratch)) return;
  linear(y, att.output, pending);
}

void GpuOps::time_mix7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                       bool first_block, Tensor v_first, const Projected7& p, StateField wkv, Tensor y,
                       Tensor pending) {
  const bool all_chunked = batch.longest > gpu::kMostRecurrentRows && plan_.short_sequences == 0;
  if (all_chunked && att.head_size == kHead && batch.rows > gpu::kMostTiledRows) {
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
  const Tensor xw = mixed[1], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  fork();
  low_rank_path(side_[0], xw, att.w, low.w, p.u, Activation::tanh);
  low_rank_path(side_[0], xa, att.a, low.a, p.alpha, {});
  if (!first_block) low_rank_path(side_[1], xv, att.v, low.v, share, {});
  large_products7(att, mixed, p);
  gpu::wkv7_chunk_prepare(join(), chunks_, att.n_head, p, {&att, share, v_first, agreement}, workspace.data);
  fork();  // the walk leaves room for the gate's products
  gpu::wkv7_chunk_walk(unhurried(), batch, chunks_, att.n_head, wkv, y, workspace.data,
                       facts_.multiprocessors);
  low_rank_path(side_[0], xg, att.g, low.g, p.g, Activation::sigmoid);
  gpu::leave_heads7(join(), att, agreement, p.v, p.g, y);
  linear(y, att.output, pending);
}

void GpuOps::channel_mix7(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor x,
                          Tensor pending, StateField ffn_shift) {
  Scratch scratch(*this);
  const Tensor mixed = scratch.take(x.rows, x.cols), hidden = scratch.take(x.rows, ffn.key.out);
  const gpu::Mixes mixes{1, {ffn.mix.as<float>()}, {mixed}};
  const Tensor z = enter(batch, ffn.ln2, x, pending, ffn_shift, mixes, scratch, ffn.deep_embed);
  key_product(mixed, ffn.key, hidden, gpu::kMostPanelKeyRows);
  if (ffn.deep_embed) {
    const Tensor scale = scratch.take(x.rows, ffn.key.out);
    deep_embed(batch, embedding, ffn, z, scale);
    multiply(hidden, scale, hidden);
  }
  linear(hidden, ffn.value, pending);
}

void GpuOps::enter6(const Batch& batch, const TimeMix6& att, Tensor x, Tensor pending, StateField att_shift,
                    std::span<const Tensor, 5> mixed) {
  Scratch scratch(*this);
  const Tensor low = scratch.take(x.rows, att.mix_w1.out);
  if (!gpu::suits_low_rank6(low, att.mix_w2[0])) {
    return Ops::enter6(batch, att, x, pending, att_shift, mixed);
  }
  const Tensor towards = scratch.take(x.rows, x.cols), previous = scratch.take(x.rows, x.cols);
  const gpu::Mixes mixes{2, {att.mix_x.as<float>(), nullptr}, {towards, previous}};
  gpu::Ahead ahead;
  if (batch.rows == 1) {
    ahead = bring_ahead({&att.receptance, &att.key, &att.value, &att.gate, &att.mix_w1}, gpu::kAheadSquare6);
  }
  const Tensor z = enter(batch, att.ln1, x, pending, att_shift, mixes, scratch, true, ahead);
  const bool few = x.rows <= gpu::kMostOwnRows;
  if (!few || !own_products({{towards, att.mix_w1, low, Epilogue::tanh}}, scratch)) {
    gemm_->run(queue_, towards, att.mix_w1, low, worth_timing(x.rows));
    gpu::activate(queue_, low, {}, Activation::tanh);
  }
  gpu::mix6(queue_, att, z, previous, low, mixed);
}

void GpuOps::project6(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                      const Projected6& p) {
  const Tensor xw = mixed[0], xk = mixed[1], xv = mixed[2], xr = mixed[3], xg = mixed[4];
  Scratch scratch(*this);
  const Tensor low = scratch.take(batch.rows, att.w.first.out);
  if (!gpu::suits_low_rank6(low, att.w.second)) return Ops::project6(batch, att, mixed, p);
  const gpu::RowsProduct products[] = {{xr, att.receptance, p.r},
                                       {xk, att.key, p.k},
                                       {xv, att.value, p.v},
                                       {xg, att.gate, p.g, Epilogue::silu},
                                       {xw, att.w.first, low, Epilogue::tanh}};
  if (batch.rows <= gpu::kMostPanelRows6 && own_products(products, scratch)) {
    const gpu::Ahead ahead = batch.rows == 1 ? bring_ahead({&att.output}, gpu::kAheadSquare) : gpu::Ahead{};
    return gpu::decay6(queue_, att.w, low, p.u, ahead);
  }
  fork();
  gemm_->run(side_[0], xw, att.w.first, low, worth_timing(xw.rows));
  gpu::activate(side_[0], low, {}, Activation::tanh);
  gemm_->run(side_[1], xg, att.gate, p.g, worth_timing(xg.rows));
  gpu::activate(side_[1], p.g, {}, Activation::silu);
  linear(xr, att.receptance, p.r);
  linear(xk, att.key, p.k);
  linear(xv, att.value, p.v);
  gpu::decay6(join(), att.w, low, p.u);
}

void GpuOps::recur6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y) {
  if (att.head_size != kHead || batch.longest <= gpu::kMostRecurrentRows) return wkv6(batch, att, p, wkv, y);
  if (plan_.short_sequences > 0) gpu::wkv6(queue_, batch, att, p, wkv, y, gpu::kMostRecurrentRows);
  Scratch scratch(*this);
  const auto bytes = static_cast<int64_t>(gpu::wkv6_chunk_workspace(chunks_.count, att.n_head));
  const Tensor workspace = scratch.take(1, bytes, DType::u8);
  gpu::wkv6_chunk(unhurried(), batch, chunks_, att.n_head, att.u.as<float>(), p, wkv, y, workspace.data,
                  facts_.multiprocessors);
}

void GpuOps::leave6(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending) {
  if (att.head_size != kHead) return Ops::leave6(batch, att, p, y, pending);
  gpu::leave_heads6(queue_, att, p.g, y);
  linear(y, att.output, pending);
}

void GpuOps::attend6(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv, Tensor y,
                     Tensor pending) {
  if (att.head_size != kHead || batch.longest > gpu::kMostRecurrentRows) {
    return Ops::attend6(batch, att, p, wkv, y, pending);
  }
  gpu::wkv6(queue_, batch, att, p, wkv, y, INT64_MAX, true);
  linear(y, att.output, pending);
}

void GpuOps::channel_mix6(const Batch& batch, const ChannelMix6& ffn, Tensor x, Tensor pending,
                          StateField ffn_shift) {
  Scratch scratch(*this);
  const Tensor for_key = scratch.take(x.rows, x.cols), for_gate = scratch.take(x.rows, x.cols);
  const Tensor gate = scratch.take(x.rows, x.cols), hidden = scratch.take(x.rows, ffn.key.out);
  const gpu::Mixes mixes{2, {ffn.mix_k.as<float>(), ffn.mix_r.as<float>()}, {for_key, for_gate}};
  const gpu::Ahead next = x.rows == 1 ? bring_ahead({&ffn.key}, gpu::kAheadKey) : gpu::Ahead{};
  enter(batch, ffn.ln2, x, pending, ffn_shift, mixes, scratch, false, next);
  const int64_t count = gpu::ffn_row_parts(ffn.key, ffn.value, facts_.multiprocessors, ffn.receptance);
  if (x.rows == 1 && count > 0) {
    const Tensor parts = scratch.take(count, x.cols, DType::f32);
    const gpu::FfnRowGate by{for_gate, ffn.receptance, gate};
    gpu::ffn_row(queue_, {{for_key, {}}, ffn.key, ffn.value, by, {}}, parts);
    return gpu::sum_parts(queue_, parts, pending, by);
  }
  if (few_rows(for_key, ffn.key) && few_rows(for_gate, ffn.receptance)) {
    gpu::linear_rows(queue_,
                     {{for_key, ffn.key, hidden, Epilogue::relu_squared}, {for_gate, ffn.receptance, gate}});
    linear(hidden, ffn.value, pending);
    return gpu::multiply_sigmoid(queue_, pending, gate);
  }
  fork();
  gemm_->run(side_[0], for_gate, ffn.receptance, gate, worth_timing(for_gate.rows));
  key_product(for_key, ffn.key, hidden, gpu::kMostPanelRows6);
  linear(hidden, ffn.value, pending);
  gpu::multiply_sigmoid(join(), pending, gate);
}

bool GpuOps::few_rows(Tensor in, const Weight& weight) {
  return in.rows <= gpu::kMostOwnRows && gpu::suits_rows_product(in, weight);
}

bool GpuOps::suits_low_rank7(const TimeMix7& att, Tensor in, bool first_block) const {
  if (!own_kernels_serve(in.rows)) return false;
  for (const LowRank* path : {&att.w, &att.a, &att.g, &att.v}) {
    if (path == &att.v && first_block) continue;
    if (!gpu::suits_rows_product(in, path->first) || path->second.in % 8 != 0) return false;
  }
  return gpu::suits_rows_product(in, att.receptance);
}

gpu::LowRows7 GpuOps::low_rows7(Scratch& scratch, int64_t rows, const TimeMix7& att, bool first_block) {
  return {scratch.take(rows, att.w.first.out), scratch.take(rows, att.a.first.out),
          first_block ? Tensor{} : scratch.take(rows, att.v.first.out), scratch.take(rows, att.g.first.out)};
}

gpu::Ahead GpuOps::bring_ahead(std::initializer_list<const Weight*> weights, int64_t most) {
  gpu::Ahead ahead;
  const auto bytes = [](const Weight& weight) {
    return weight.data == nullptr ? 0 : weight.in * weight.out * int64_t{sizeof(uint16_t)};
  };
  if (bytes(**weights.begin()) < gpu::kAheadShare * most) return ahead;
  int i = 0;
  for (const Weight* weight : weights) {
    ahead.data[i] = weight->data;
    ahead.bytes[i++] = static_cast<uint32_t>(std::min(most, bytes(*weight)) / 16 * 16);
  }
  return ahead;
}

void GpuOps::first_products7(const TimeMix7& att, std::span<const Tensor, 6> mixed, bool first_block,
                             const Projected7& p, const gpu::LowRows7& low, Scratch& scratch) {
  const Tensor xr = mixed[0], xw = mixed[1], xk = mixed[2], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  const gpu::RowsProduct products[] = {{xr, att.receptance, p.r},
                                       {xk, att.key, p.k},
                                       {xv, att.value, p.v},
                                       {xg, att.g.first, low.g, Epilogue::sigmoid},
                                       {xw, att.w.first, low.w, Epilogue::tanh},
                                       {xa, att.a.first, low.a},
                                       {xv, att.v.first, low.v}};
  FULMAR_CHECK(own_products({products, std::size(products) - (first_block ? 1 : 0)}, scratch));
}

bool GpuOps::own_products(gpu::RowsProducts products, Scratch& scratch) {
  const int64_t rows = products.front().in.rows;
  if (!own_kernels_serve(rows)) return false;
  for (const gpu::RowsProduct& one : products) {
    if (!gpu::suits_rows_product(one.in, one.weight)) return false;
    if (rows > gpu::kMostOwnRows && one.weight.out % 4 != 0) return false;
  }
  if (rows <= gpu::kMostOwnRows) {
    few_rows_products(products);
    return true;
  }
  if (has_panels()) {
    run_panels(products, gpu::plan_panels(products, facts_.multiprocessors), scratch);
    return true;
  }
  const gpu::TilePlan plan = gpu::plan_tiles(products, facts_.multiprocessors);
  FULMAR_CHECK(static_cast<size_t>(plan.tiles) <= kTileCounters);
  const Tensor partial = scratch.take(1, static_cast<int64_t>(plan.partial_bytes), DType::u8);
  gpu::linear_tiles(queue_, products, plan, partial.as<float>(), tile_counters());
  return true;
}

void GpuOps::few_rows_products(gpu::RowsProducts products) {
  if (products.front().in.rows > 1 || !stream_products(products)) gpu::linear_rows(queue_, products);
}

bool GpuOps::stream_products(gpu::RowsProducts products) {
  gpu::RowProduct streamed[gpu::kMostProducts];
  size_t count = 0;
  for (const gpu::RowsProduct& one : products) {
    if (!gpu::suits_linear_row(one.weight) || one.weight.in != products.front().weight.in) return false;
    streamed[count++] = {{one.in, {}}, one.weight, {one.out, {}}, one.epilogue};
  }
  gpu::linear_row(queue_, {streamed, count}, facts_.multiprocessors);
  return true;
}

void GpuOps::run_panels(gpu::RowsProducts products, const gpu::PanelPlan& plan, Scratch& scratch) {
  FULMAR_CHECK(plan.steps_each == 0 || static_cast<size_t>(plan.tiles) <= kTileCounters);
  const Tensor partial = scratch.take(1, static_cast<int64_t>(plan.partial_bytes), DType::u8);
  gpu::linear_panels(queue_, products, plan, partial.as<float>(), tile_counters());
}

bool GpuOps::own_kernels_serve(int64_t rows) const {
  if (has_panels()) return rows <= gpu::kMostPanelRows;
  if (rows > gpu::kMostTiledRows) return false;
  return rows <= gpu::kMostOwnRows || gpu::tile_shared_bytes(rows) <= facts_.shared_memory;
}

void GpuOps::project_by_library7(const Batch& batch, const TimeMix7& att, std::span<const Tensor, 6> mixed,
                                 bool first_block, Tensor v_first, const Projected7& p,
                                 const gpu::LowRows7& low, Scratch& scratch) {
  const Tensor xw = mixed[1], xv = mixed[3], xa = mixed[4], xg = mixed[5];
  const Tensor share = first_block ? Tensor{} : scratch.take(batch.rows, p.v.cols);
  fork();
  low_rank_path(side_[0], xg, att.g, low.g, p.g, Activation::sigmoid);
  low_rank_path(side_[1], xw, att.w, low.w, p.u, Activation::tanh);
  low_rank_path(side_[0], xa, att.a, low.a, p.alpha, {});
  if (!first_block) low_rank_path(side_[1], xv, att.v, low.v, share, {});
  large_products7(att, mixed, p);
  gpu::finish_project7(join(), att, first_block, v_first, share, p);
}

void GpuOps::large_products7(const TimeMix7& att, std::span<const Tensor, 6> mixed, const Projected7& p) {
  linear(mixed[0], att.receptance, p.r);
  linear(mixed[2], att.key, p.k);
  linear(mixed[3], att.value, p.v);
}

Tensor GpuOps::chunk_workspace7(Scratch& scratch, const TimeMix7& att) const {
  return scratch.take(1, static_cast<int64_t>(gpu::wkv7_chunk_workspace(chunks_.count, att.n_head)),
                      DType::u8);
}

void GpuOps::linear_value(Tensor in, const Weight& weight, Tensor out) {
  const gpu::ValuePlan plan = gpu::plan_value_product(in.rows, weight.in, weight.out, facts_.multiprocessors);
  FULMAR_CHECK(static_cast<size_t>(weight.out) / 128 <= kCounters);
  Scratch scratch(*this);
  const Tensor partial = scratch.take(1, static_cast<int64_t>(plan.partial_bytes), DType::u8);
  gpu::linear_value(queue_, plan, in, weight, out, partial.as<float>(),
                    static_cast<uint32_t*>(counters_.data()));
}

void GpuOps::low_rank_path(const Queue& side, Tensor in, const LowRank& path, Tensor low, Tensor out,
                           std::optional<Activation> act) {
  gemm_->run(side, in, path.first, low, worth_timing(in.rows));
  if (act) gpu::activate(side, low, {}, *act);
  gemm_->run(side, low, path.second, out, worth_timing(in.rows));
}

void GpuOps::key_product(Tensor in, const Weight& key, Tensor hidden, int64_t most_panel_rows) {
  Scratch scratch(*this);
  const int64_t most_rows = has_panels() ? most_panel_rows : gpu::kMostOwnRows;
  const gpu::RowsProduct product{in, key, hidden, Epilogue::relu_squared};
  if (in.rows <= most_rows && own_products({product}, scratch)) return;
  const bool suits = gpu::suits_rows_product(in, key) && key.out % 8 == 0;
  if (has_panels() && in.rows <= gpu::kMostFilledKeyRows && suits) {
    const gpu::PanelPlan plan = gpu::plan_panels({&product, 1}, facts_.multiprocessors);
    if (plan.filled >= gpu::kLeastFilled) return run_panels({&product, 1}, plan, scratch);
  }
  if (has_panels() && gpu::many_rows_pay(in.rows) && suits) {
    return gpu::linear_many(queue_, product, facts_.multiprocessors);
  }
  linear(in, key, hidden);
  activate(hidden, {}, Activation::relu_squared);
}

void GpuOps::fork() {
  FULMAR_GPU(cudaEventRecord(fork_, queue_.stream));
  for (const Queue& side : side_) FULMAR_GPU(cudaStreamWaitEvent(side.stream, fork_, 0));
}

Queue GpuOps::join() {
  for (int i = 0; i < kSides; i++) {
    FULMAR_GPU(cudaEventRecord(join_[i], side_[i].stream));
    FULMAR_GPU(cudaStreamWaitEvent(queue_.stream, join_[i], 0));
  }
  return unhurried();
}

Queue GpuOps::unhurried() const {
  Queue queue = queue_;
  queue.overlap = false;
  return queue;
}

Tensor GpuOps::enter(const Batch& batch, const Norm& norm, Tensor x, Tensor pending, StateField carry,
                     const gpu::Mixes& mixes, Scratch& scratch, bool needs_z, const gpu::Ahead& ahead) {
  const Tensor z = needs_z ? scratch.take(x.rows, x.cols) : Tensor{};
  const gpu::EnterPlan plan = gpu::plan_enter(batch, x.cols, facts_.multiprocessors);
  const Tensor fronts = scratch.take(2 * plan.blocks, x.cols);
  gpu::enter(queue_, batch, norm, x, pending, carry, mixes, z, plan, fronts, ahead);
  return z;
}

}  // namespace fulmar
