// in @ weight^T for few rows with many zeros, weight stored transposed [K, outs]: rows of weights that meet
// only zeros are not read (value.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

struct ValuePlan {
  int64_t slice = 0;  // inputs of a slice (split-K)
  int64_t slices = 0;
  size_t partial_bytes = 0;
};

// Which inputs are skipped changes the order of the sums: no more rows than have no padding among them.
constexpr int64_t kMostValueRows = 8;

constexpr int kValueOuts = 128;  // of a block; each has a counter
bool suits_value(int64_t rows, const Weight& weight);
ValuePlan plan_value(int64_t rows, int64_t in, int64_t out, int multiprocessors);

// out in the activation type. partial: plan.partial_bytes; counters: zeroed once, [outs / kValueOuts], zero
// again afterwards.
void linear_value(const Queue&, const ValuePlan&, Tensor in, const Weight& weight, Tensor out, float* partial,
                  uint32_t* counters);

}  // namespace fulmar::gpu
