// RWKV-7's way from the first low-rank halves to the output product for steps of few rows, of one sequence or
// several, in one kernel (attend_rows7.cu); a lone row's keeps f32 between kernels (lone_row.h).
#pragma once

#include "gpu/stages/low_rank.h"
#include "ops/batch.h"
#include "ops/state.h"

namespace fulmar::gpu {

constexpr int64_t kMostAttendRows = 8;  // of a step
// Whether these kernels take a layer's second halves: plain 16-bit weights [C, R] as they are, R a multiple of 8
// and at most 256, of the gate 512; heads of 64.
bool suits_attend7(const TimeMix7&, bool first_block);
// From raw products r, k, v [rows, C] to what the output product takes: second halves of the low-rank paths,
// key preparation, recurrence with what the rings hold, and head end. `lows`: first halves, activations
// applied. v_first [rows, C] is written in the first block.
struct RawRows7 {
  Tensor r, k, v;
};
void attend_rows7(const Queue&, const Batch&, const TimeMix7&, bool first_block, const LowRows7& lows,
                  const RawRows7&, Tensor v_first, StateField wkv, Tensor y, int multiprocessors);

}  // namespace fulmar::gpu
