// Products of transposed weights (transposed.h) with rows of input that are mostly zeros: activation
// sparsity. The weights of an input that is zero are neither read nor multiplied. Knows nothing of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/transposed.h"
#include "tensor/weight.h"

namespace fulmar {

// Returns whether sparse_outputs multiplies the format.
bool multiplies_strips(DType dtype);

// A row's nonzero inputs: {count, ascending indices, numbers}, with room for all inputs. NaN is nonzero.
constexpr int64_t kNonzerosPadding = 32;
constexpr int64_t nonzeros_floats(int64_t depth) { return 2 * (depth + kNonzerosPadding) + 16; }
// Writes a row's nonzeros to `to`, 64-byte aligned; returns how many there are.
int64_t find_nonzeros(const float* in, int64_t depth, float* to);

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct SparseProduct {
  DType dtype = DType::f16;
  const std::byte* weight = nullptr;  // transposed
  const float* scales = nullptr;      // beside the codes of formats that have them there, transposed
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // [rows] of find_nonzeros, nonzeros_floats(depth) apart
  float* out = nullptr;       // [rows, out]
  int64_t out_stride = 0;
  bool one_order = false;  // the same for every number of rows
};

// Returns the least rows for which weights are decoded once for all of them, unless one_order is set: fewer,
// the more a code costs each row.
constexpr int64_t least_decoded_rows(DType dtype) {
  const int64_t row_bytes = strip_format(dtype).row_bytes;
  return row_bytes > kStripOutputs ? 64 : row_bytes == kStripOutputs ? 40 : 24;
}

// Computes the outputs [first, last) of every row, `first` a multiple of kStripOutputs. Order of summation:
// the inputs of a share (weights with the same factors, at most 1,024) in turn, then the shares; where
// weights are decoded, all inputs in turn.
void sparse_outputs(const SparseProduct& product, int64_t first, int64_t last);

}  // namespace fulmar
