// All-reduce and gather of ranks on GPUs that reach each other's memory: the kernels of one rank, which push
// what they have into the others' memory and wait there for what comes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/device/peers.h"
#include "gpu/device/sum_way.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

// x += the sum over all ranks of `partial`: at most `capacity` words without gaps, x f32. Two-shot sums are
// rounded to the type of `partial`.
void peer_add_sum(const Queue&, const Peers&, const Tensor& partial, const Tensor& x, SumWay way);
// x += sum, both without gaps, x f32: what a sum by the library leaves to be done.
void add_library_sum(const Queue&, const Tensor& sum, const Tensor& x);
// x [1, C] += the sum over all ranks and rows of `parts`, f32 [n, C], where C suits (suits_add_parts).
bool suits_add_parts(const Peers&, const Tensor& parts);
void peer_add_parts(const Queue&, const Peers&, const Tensor& parts, const Tensor& x);
// `part`, f32, to columns [first, first + n) of `whole` on rank 0, which waits for all ranks; `whole` [rows,
// V] is in rank 0's memory, whoever calls.
void peer_gather(const Queue&, const Peers&, const Tensor& part, int64_t first, const Tensor& whole);

}  // namespace fulmar::gpu
