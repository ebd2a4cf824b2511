// The grid of kernels that give each item a thread.
#pragma once

#include <cstdint>

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

// Blocks of `threads` along x, enough of them for all items.
inline dim3 item_grid(int64_t items, int threads) {
  return dim3(static_cast<unsigned>((items + threads - 1) / threads));
}

}  // namespace fulmar::gpu
