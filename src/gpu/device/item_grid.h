// The grid of kernels with one thread per item.
#pragma once

#include <cstdint>

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Returns a grid of blocks of `threads` threads along x, enough for all items.
inline dim3 item_grid(int64_t items, int threads) {
  return dim3(static_cast<unsigned>((items + threads - 1) / threads));
}

}  // namespace fulmar::gpu
