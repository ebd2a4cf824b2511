// The pre-mix of each half block: residual add, norm, token shift and all mixes (enter.cu).
#pragma once

#include "gpu/device/device.h"
#include "gpu/device/peers.h"
#include "gpu/device/prefetch.h"
#include "ops/args.h"
#include "ops/batch.h"
#include "ops/state_field.h"

namespace fulmar::gpu {

struct Mixes {
  int count = 0;
  const float* mix[6] = {};  // each f32 [C]; null: 1, i.e. the shifted z
  Tensor out[6];             // each [rows, C]
};

// What is computed of the residual stream: its norm and the mixes of that with the token before.
struct PreMix {
  const Norm& norm;
  Tensor x;          // the residual stream
  StateField carry;  // the shift of each slot
  const Mixes& mixes;
  Tensor z;  // the normalised rows [rows, C]; empty: not written
};

// How the rows of a step are divided among blocks.
struct EnterPlan {
  int64_t each = 0, blocks = 0;  // for sequences of several rows: rows per block, number of blocks
  int64_t pulling = 0;           // number of blocks where an addend is pulled; 0: one per row
  // Few rows: as many threads as possible, since one row's latency is the step's; many: small blocks, several
  // per SM.
  bool wide = true;
  // For sequences of several rows: the rows before each block's first one, [2 * blocks, C].
  Tensor fronts = {};
};
// Plans a step. `fixed_order`: moments are summed in one order at any batch size.
EnterPlan plan_enter(const Batch&, int64_t cols, int multiprocessors, bool fixed_order = false);

// The addend of x: `pending`, or with two ranks the sum of both ranks', the other's read through `pull`.
struct EnterAddend {
  Tensor pending;
  const PeerPull* pull = nullptr;  // null: one rank, or already summed
};

// Saves in plan.fronts the rows before each block's first one, which enter overwrites. Call before enter
// where sequences have several rows.
void enter_fronts(const Queue&, const Batch&, const PreMix&, const EnterAddend&, const EnterPlan&);
// Sets x += pending; z = norm(x); out[i] = lerp(z, shifted z, mix[i]).
void enter(const Queue&, const Batch&, const PreMix&, const EnterAddend&, const EnterPlan&,
           const Prefetch& = {});

// Does the same in one kernel for sequences of few rows, as when drafts are checked; compute capability 9.0
// (sm90/enter_short.cu). suits_enter_short: at most kMostShortRows rows each, few in all, C at most 4,096.
// Appends z of rows that may be rolled back to the shift ring, as keep_rows does.
constexpr int64_t kMostShortRows = 8;
bool suits_enter_short(const Batch&, int64_t cols);
void enter_short(const Queue&, const Batch&, const PreMix&, Tensor pending);

}  // namespace fulmar::gpu
