// All-reduce and gather kernels of one rank on GPUs with peer access: they push into the other ranks' memory
// and wait in their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/device/peers.h"
#include "gpu/device/sum_way.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// Adds to x, f32, the sum over all ranks of `partial`, at most `capacity` words, contiguous. Two-shot rounds
// the sums to the type of `partial`.
void peer_add_sum(const Queue&, const Peers&, const Tensor& partial, const Tensor& x, SumWay way);
// Adds `sum` to x, both contiguous, x f32: the second step of an all-reduce by the vendor's library.
void add_library_sum(const Queue&, const Tensor& sum, const Tensor& x);
// Adds to x [1, C] the sum over all ranks and rows of `parts`, f32 [n, C]; needs suits_add_parts.
bool suits_add_parts(const Peers&, const Tensor& parts);
void peer_add_parts(const Queue&, const Peers&, const Tensor& parts, const Tensor& x);
// Writes `part` (f32) to columns [first, first + n) of `whole` [rows, V], which is in rank 0's memory on
// every rank; rank 0 waits for all.
void peer_gather(const Queue&, const Peers&, const Tensor& part, int64_t first, const Tensor& whole);

}  // namespace fulmar::gpu
