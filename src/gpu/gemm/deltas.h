// Adapters on a GPU: after a GEMM, adds what deltas change in its output (ops/deltas.h), by two kernels for
// all rows of a step and all their adapters: a gather-GEMV down to the rank, and one up that adds.
#pragma once

#include <cstdint>

#include "gpu/device/device.h"
#include "ops/deltas.h"

namespace fulmar::gpu {

// The change of one matrix, as kernels read it.
struct DeviceDelta {
  const void* down = nullptr;  // [rank, in]; null: sums of inputs
  const void* up = nullptr;    // [out, rank]
  const float* gain = nullptr;
  int64_t first_input = 0;
  int32_t rank = 0;  // 0: the matrix is not changed
  float scale = 1;
  uint8_t down_type = 0, up_type = 0;  // delta_type
};

// Returns the number that kernels know a type by: f32, f16 or bf16.
uint8_t delta_type(DType dtype);

// A row that is computed with deltas: entry n of its table is the change of the matrix with number n.
struct DeltaRow {
  const DeviceDelta* table = nullptr;
  int32_t entries = 0;
  int32_t row = 0;
  float scale = 1;  // t
};

// Rows of a step in device memory, and the longest rank of their tables.
struct DeltaRowList {
  const DeltaRow* rows = nullptr;
  int64_t count = 0;
  int64_t most_rank = 0;
};

// Changes the listed rows of `out` [rows, out], in [rows, in] x matrix `number`. low: f32 [list.count,
// list.most_rank], working memory.
void add_deltas(const Queue& queue, const DeltaRowList& list, int number, Tensor in, Tensor out, Tensor low);

}  // namespace fulmar::gpu
