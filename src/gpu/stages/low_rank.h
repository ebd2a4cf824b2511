// Second low-rank GEMMs with fused elementwise tails (low_rank7.cu, low_rank6.cu, sm90/finish_panels7.cu).
#pragma once

#include <span>

#include "gpu/device/device.h"
#include "gpu/device/prefetch.h"
#include "rwkv6/weights.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

// ---- RWKV-7: with project7's elementwise tail (math/finish7.h); heads of 64
// The most rows for low_rank_finish7; above, finish_panels7 is faster where it runs.
constexpr int64_t kMostLowRankRows = 64;
// Returns whether both support a second low-rank matrix: plain 16-bit weights [C, R] as stored, R a multiple
// of 8.
bool suits_second_half7(const Weight& second);
struct LowRows7 {  // outputs of the first low-rank GEMMs, activations applied; [rows, R] each
  Tensor w, a, v, g;
};
struct SecondHalves7 {
  const TimeMix7& att;
  bool first_block = false;
  Tensor v_first;  // written in the first block
  const LowRows7& low;
  const Projected7& p;
};
// Computes what project leaves in p, which holds the raw r, k and v.
void low_rank_finish7(const Queue&, const SecondHalves7&);
// Does the same for more rows, as the epilogue of the wgmma GEMM; compute capability 9.0.
void finish_panels7(const Queue&, const SecondHalves7&, int multiprocessors);

// Returns whether mix6 and decay6 support the matrix; any number of rows.
bool suits_low_rank6(Tensor low, const Weight& second);
// Sets mixed[i] = z + (previous - z) * (mix row i + low part i @ mix_w2[i]^T); low [rows, 5 * Rm] after tanh.
void mix6(const Queue&, const TimeMix6&, Tensor z, Tensor previous, Tensor low,
          std::span<const Tensor, 5> mixed);
// Sets u = bias + low @ second^T; tanh applied to low.
void decay6(const Queue&, const LowRank& w, Tensor low, Tensor u, const Prefetch& = {});

}  // namespace fulmar::gpu
