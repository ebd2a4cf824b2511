// relu² feed-forward of two to eight rows (ffn_rows.cu): value @ relu²(key @ in), value stored transposed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

constexpr int64_t kMostFfnRows = 8;

// Returns the number of partial sums (one per block); 0: rows or matrices not supported. Needs plain 16-bit
// weights: key [F, K] as stored, K a multiple of 64 up to 4,096, F of 16; value transposed [F, C], C a
// multiple of 64.
int64_t ffn_rows_parts(Tensor in, const Weight& key, const Weight& value, int multiprocessors);
// Returns the largest size of the partial sums of a step of up to `rows` rows, in bytes.
size_t most_ffn_rows_bytes(int64_t rows, int64_t n_embd, int64_t n_ffn, int multiprocessors);
// Writes the partial sums to parts, f32 [ffn_rows_parts, rows * C]; sum_parts adds them up, row after row.
void ffn_rows(const Queue&, Tensor in, const Weight& key, const Weight& value, Tensor parts);

}  // namespace fulmar::gpu
