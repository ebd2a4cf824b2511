// Devices that panels are planned for.
#pragma once

#include <cstddef>

#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar {

// Of so many multiprocessors, in GPCs of 16.
inline gpu::WgmmaRoom room_of(int multiprocessors) {
  constexpr int kGpcMultiprocessors = 16;
  gpu::WgmmaRoom room{multiprocessors};
  for (int blocks = 2; blocks <= gpu::kMostClusterBlocks; blocks++) {
    room.clusters[static_cast<size_t>(blocks)] =
        multiprocessors / kGpcMultiprocessors * (kGpcMultiprocessors / blocks);
  }
  return room;
}

}  // namespace fulmar
