// Both recurrences of the CPU backend, on f32 rows and f32 states (docs/model.md, "Recurrence of RWKV-7" and
// "Recurrence of RWKV-6").
#pragma once

#include "cpu/thread_pool.h"
#include "ops/batch.h"
#include "ops/state.h"
#include "rwkv6/weights.h"
#include "rwkv7/weights.h"

namespace fulmar::cpu {

void wkv7(ThreadPool& pool, const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv,
          Tensor y);
void wkv6(ThreadPool& pool, const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv,
          Tensor y);

// Replays the rows of a slot's ring onto a copy of its recurrent state of one layer, [H, N, N].
void replay(ThreadPool& pool, const State& state, int64_t layer, int64_t slot, float* wkv);

}  // namespace fulmar::cpu
