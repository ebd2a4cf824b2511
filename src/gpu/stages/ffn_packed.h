// relu² feed-forward of one to eight rows with quantised weights (ffn_packed.cu): value @ relu²(key @ in),
// both matrices in one format, value stored transposed.
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/gemv.h"

namespace fulmar::gpu {

constexpr int64_t kMostFfnPackedRows = 8;

// Returns the number of partial sums (one per block) at this many rows; 0: not supported (rows, matrices or
// shared memory). Needs key [F, K] as packed fragments and value transposed [F, C] (packed.h).
int64_t ffn_packed_parts(int64_t rows, const Weight& key, const Weight& value, const DeviceFacts&);
// Returns the largest size of the partial sums of a step of up to `rows` rows, in bytes.
size_t most_ffn_packed_bytes(int64_t rows, int64_t n_embd, int64_t n_ffn, int multiprocessors);
// Writes the partial sums to parts, f32 [ffn_packed_parts, R * C]; sum_parts adds them up, row after row. in:
// [R, K], or a batch-1 pair.
void ffn_packed(const Queue&, const Pair& in, const Weight& key, const Weight& value, Tensor parts);

}  // namespace fulmar::gpu
