// in @ weight^T for few rows with many zeros, weight stored transposed [K, outs]: rows of weights that meet
// only zeros are not read (sparse.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

struct SparsePlan {
  int64_t slice = 0;  // inputs of a slice (split-K)
  int64_t slices = 0;
  size_t partial_bytes = 0;
};

// Which inputs are skipped changes the order of the sums: no more rows than have no padding among them.
constexpr int64_t kMostSparseRows = 8;

constexpr int kSparseOuts = 128;  // of a block; each has a counter
bool suits_sparse(int64_t rows, const Weight& weight);
SparsePlan plan_sparse(int64_t rows, int64_t in, int64_t out, int multiprocessors);

// out in the activation type. partial: plan.partial_bytes; counters: zeroed once, [outs / kSparseOuts], zero
// again afterwards.
void launch_sparse(const Queue&, const SparsePlan&, Tensor in, const Weight& weight, Tensor out,
                   float* partial, uint32_t* counters);

}  // namespace fulmar::gpu
