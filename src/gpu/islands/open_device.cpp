#include "gpu/islands/open_device.h"

#include <optional>

#include "gpu/device/peer_collective.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/math/head_size.h"
#include "gpu/stages/ffn_packed.h"
#include "gpu/stages/ffn_rows.h"
#include "gpu/stages/lone_row.h"
#include "gpu/stages/rows.h"

namespace fulmar::gpu {

Queue OpenDevice::without_pdl() const {
  Queue own = queue;
  own.overlap = false;
  return own;
}

bool OpenDevice::in_chunks(const Batch& batch, int64_t head_size) const {
  return head_size == kHeadSize && batch.longest > kMostRecurrentRows;
}

Tensor OpenDevice::enter(const Batch& batch, PreMix to, const Addend& pending, Ops::Scratch& scratch,
                         bool needs_z, const Prefetch& next) const {
  const Tensor x = to.x;
  if constexpr (kHopperCode) {
    if (ways.short_rows && suits_enter_short(batch, x.cols)) {
      if (needs_z) to.z = scratch.take(x.rows, x.cols);
      enter_short(queue, batch, to, pending.joined(x));
      return to.z;
    }
  }
  const bool keeps = batch.revocable;  // a roll-back will need the shifts of earlier rows
  if (needs_z || keeps) to.z = scratch.take(x.rows, x.cols);
  EnterPlan blocks = plan_enter(batch, x.cols, facts.multiprocessors, ways.fixed_order);
  blocks.fronts = scratch.take(2 * blocks.blocks, x.cols);
  auto* const peers = pending.empty() ? nullptr : dynamic_cast<PeerCollective*>(pending.ranks);
  std::optional<PeerPull> pull = peers != nullptr ? peers->pull_of(pending.own) : std::nullopt;
  const EnterAddend addend{pull ? pending.own : pending.joined(x), pull ? &*pull : nullptr};
  if (!batch.decode_only()) {
    enter_fronts(queue, batch, to, addend, blocks);
    if (pull) peers->launched(), pull->offers = false;
  }
  gpu::enter(queue, batch, to, addend, blocks, next);
  if (pull && batch.decode_only()) peers->launched();
  if (keeps) keep_rows(queue, batch, to.z, to.carry);
  return to.z;
}

int64_t OpenDevice::few_rows_parts(Tensor in, const Weight& key, const Weight& value) const {
  if (!ways.few_rows) return 0;
  if (is_packed(key)) return ffn_packed_parts(in.rows, key, value, facts);
  return ffn_rows_parts(in, key, value, facts.multiprocessors);
}

void OpenDevice::feed_forward(Tensor in, const Weight& key, const Weight& value, Tensor out,
                              Ops::Scratch& scratch) const {
  const int64_t count = few_rows_parts(in, key, value);
  if (count > 0 && out.contiguous()) {
    const Tensor parts = scratch.take(count, out.count(), DType::f32);
    is_packed(key) ? ffn_packed(queue, {in, {}}, key, value, parts) : ffn_rows(queue, in, key, value, parts);
    return sum_parts(queue, parts, {out.data, out.dtype, 1, out.count(), out.count()});
  }
  const Tensor hidden = scratch.take(in.rows, key.out);
  gemm->run_feed_forward({in, key, hidden, Epilogue::relu_squared}, {hidden, value, out});
}

}  // namespace fulmar::gpu
