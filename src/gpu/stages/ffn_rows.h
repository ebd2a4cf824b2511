// relu² feed-forward of two to eight rows (ffn_rows.cu): value @ relu²(key @ in), value stored transposed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

constexpr int64_t kMostFfnRows = 8;

// In how many parts the result is found, by a block each; 0: these rows or matrices do not suit. Wanted are
// plain 16-bit weights, key [F, K] as it is with K a multiple of 64 up to 4,096 and F one of 16, value
// transposed [F, C] with C a multiple of 64.
int64_t ffn_rows_parts(Tensor in, const Weight& key, const Weight& value, int multiprocessors);
// What all parts of a step of at most so many rows take, in bytes.
size_t most_ffn_rows_bytes(int64_t rows, int64_t n_embd, int64_t n_ffn, int multiprocessors);
// parts, f32 [ffn_rows_parts, rows * C]: their sum (sum_parts) is the result, row after row.
void ffn_rows(const Queue&, Tensor in, const Weight& key, const Weight& value, Tensor parts);

}  // namespace fulmar::gpu
