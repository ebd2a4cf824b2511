// The beginning of each half block: residual add, norm, token shift and all mixes (enter.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/device/peers.h"
#include "gpu/device/prefetch.h"
#include "ops/args.h"
#include "ops/batch.h"
#include "ops/state.h"

namespace fulmar::gpu {

struct Mixes {
  int count = 0;
  const float* mix[6] = {};  // each f32 [C]; null: 1, which gives the shifted z itself
  Tensor out[6];             // each [rows, C]
};

// Rows that follow one another are shared out among blocks.
struct EnterPlan {
  int64_t each = 0, blocks = 0;  // of sequences of several rows: rows of a block, and how many blocks
  int64_t pulling = 0;  // blocks that go through rows where an addend is pulled; 0: each row has a block
  // Few rows: as many threads as there are, for the time that one row takes is that of the whole step; many:
  // small blocks, of which several run at once.
  bool wide = true;
};
// `fixed_order`: a row's moments are added up in one order whatever the number of rows.
EnterPlan plan_enter(const Batch&, int64_t cols, int multiprocessors, bool fixed_order = false);

// x += pending, or, of two ranks, the sum of both pending addends, of which `pull` has the other.
struct EnterAddend {
  Tensor pending;
  const PeerPull* pull = nullptr;  // null: nobody has another
};

// Where rows follow one another, to be called in front of enter: fronts [2 * plan.blocks, C], working memory,
// becomes what each block's first row wants of the rows before, which enter changes.
void enter_fronts(const Queue&, const Batch&, const Norm&, Tensor x, const EnterAddend&, StateField carry,
                  const EnterPlan&, Tensor fronts);
// x += pending; z = norm(x); out[i] = lerp(z, shifted z, mix[i]). `z` [rows, C] is written where it is not
// empty. `fronts` is empty where every sequence has one row.
void enter(const Queue&, const Batch&, const Norm&, Tensor x, const EnterAddend&, StateField carry,
           const Mixes&, Tensor z, const EnterPlan&, Tensor fronts, const Prefetch& = {});

// The same in one kernel for sequences of few rows, such as those that check drafts, on compute
// capability 9.0 (sm90/enter_short.cu): at most kMostShortRows rows of each, not many in all, C at most
// 4,096. z of rows that may be rolled back goes into the ring of what is carried on, as keep_shifts would put
// it there.
constexpr int64_t kMostShortRows = 8;
bool suits_enter_short(const Batch&, int64_t cols);
void enter_short(const Queue&, const Batch&, const Norm&, Tensor x, Tensor pending, StateField carry,
                 const Mixes&, Tensor z);

}  // namespace fulmar::gpu
