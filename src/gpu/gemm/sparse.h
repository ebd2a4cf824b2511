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

// What the slices of a launch share. partial: plan.partial_bytes; counters: zero before and afterwards.
struct SplitWork {
  float* partial = nullptr;
  uint32_t* counters = nullptr;
};

// Output in the activation type, no epilogue; [outs / kSparseOuts] counters.
void launch_sparse(const Queue&, const SparsePlan&, const Gemm&, const SplitWork&);

}  // namespace fulmar::gpu
