// Per-head work: key preparation, group norm, bonus, and the fused tails of project7 and leave (heads.cu).
// Shapes as in ops/ops.h.
#pragma once

#include "gpu/device/device.h"
#include "rwkv6/weights.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

void key_prepare7(const Queue&, const TimeMix7&, Tensor k, Tensor alpha, Tensor kk);
void head_norm(const Queue&, int64_t n_head, const Norm&, Tensor y);
void bonus7(const Queue&, const TimeMix7&, const Projected7&, Tensor y);

// Sets y = (head_norm(y) + bonus) * g in place; heads of 64.
void leave_heads7(const Queue&, const TimeMix7&, const Projected7&, Tensor y);
// Does the same, given `agreement` (f32 [rows, heads]: sums of r * k * r_k).
void leave_heads7(const Queue&, const TimeMix7&, Tensor agreement, Tensor v, Tensor g, Tensor y);
// Sets y = head_norm(y) * g in place; heads of 64.
void leave_heads6(const Queue&, const TimeMix6&, Tensor g, Tensor y);

// Applies project7's elementwise tail (math/finish7.h) in place to raw GEMM outputs; heads of 64. share: GEMM
// output of the value residual, [rows, C]; not read in the first block, which writes v_first.
void finish_project7(const Queue&, const TimeMix7&, bool first_block, Tensor v_first, Tensor share,
                     const Projected7&);

}  // namespace fulmar::gpu
