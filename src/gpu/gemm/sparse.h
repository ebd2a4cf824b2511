// Down-projection with sparse inputs: in @ weight^T for a few rows with many zeros, weight stored transposed
// [K, outs]. Rows of the weight whose inputs are all zero are not read (sparse.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

struct SparsePlan {
  int64_t slice = 0;  // inputs of a split-K slice
  int64_t slices = 0;
  size_t partial_bytes = 0;
};

// No batch up to this size has padding rows: which inputs are skipped changes the order of the sums.
constexpr int64_t kMostSparseRows = 8;

constexpr int kSparseOuts = 128;                        // outputs of a block; each block has a counter
bool suits_sparse(int64_t rows, const Weight& weight);  // 16-bit [K, outs]: outs of 128, K of 512
SparsePlan plan_sparse(int64_t rows, int64_t in, int64_t out, int multiprocessors);

// What the split-K slices of a launch share. partial: plan.partial_bytes; counters: zero before and after.
struct SplitWork {
  float* partial = nullptr;
  uint32_t* counters = nullptr;
};

// Enqueues the product: output in the activation type, no epilogue; [outs / kSparseOuts] counters.
void launch_sparse(const Queue&, const SparsePlan&, const Gemm&, const SplitWork&);

}  // namespace fulmar::gpu
