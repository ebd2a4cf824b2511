// What the skinny kernels share on the host: their form of products, and their shares of the GPU.
#pragma once

#include <span>

#include "gpu/device/launch_place.h"
#include "gpu/gemm/gemv.h"
#include "gpu/gemm/kernel.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/skinny_pair.h"

namespace fulmar::gpu {

// Returns the share of a skinny kernel that runs alone: two blocks per SM.
inline LaunchShare whole_gpu(const GemmDevice& device) { return {2 * device.multiprocessors}; }

// Returns the products as Gemvs, stored in `rows`.
inline std::span<const Gemv> gemvs_of(GemmList products, Gemv (&rows)[kMostGemms]) {
  size_t count = 0;
  for (const Gemm& one : products) {
    rows[count++] = {{one.in, {}}, one.weight, {one.out, {}}, one.epilogue};
  }
  return {rows, count};
}

// Returns the weights that skinny kernels stream for these products, as tiles of equally many outputs.
template <class List>
TileStream tile_stream(const List& products) {
  int64_t bytes = 0, tiles = 0;
  for (const auto& one : products) {
    bytes += static_cast<int64_t>(one.weight.bytes());
    tiles += (one.weight.out + kPackedOuts - 1) / kPackedOuts;
  }
  return {tiles, bytes / tiles};
}

}  // namespace fulmar::gpu
