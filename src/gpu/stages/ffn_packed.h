// relu² feed-forward of one to eight rows from packed codes (ffn_packed.cu): value @ relu²(key @ in), both of
// one quantised format, value stored transposed.
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/gemv.h"

namespace fulmar::gpu {

constexpr int64_t kMostFfnPackedRows = 8;

// In how many parts the result is found for so many rows, by a block each; 0: these rows or matrices do not
// suit, or the device has too little shared memory. Wanted are key [F, K] as packed fragments and value
// transposed [F, C] (packed.h).
int64_t ffn_packed_parts(int64_t rows, const Weight& key, const Weight& value, const DeviceFacts&);
// What all parts of a step of at most so many rows take, in bytes.
size_t most_ffn_packed_bytes(int64_t rows, int64_t n_embd, int64_t n_ffn, int multiprocessors);
// in [R, K], or a lone row's pair. parts, f32 [ffn_packed_parts, R * C]: their sum (sum_parts) is the result,
// row after row.
void ffn_packed(const Queue&, const Pair& in, const Weight& key, const Weight& value, Tensor parts);

}  // namespace fulmar::gpu
