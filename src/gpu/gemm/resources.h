// What launches of products share: the GEMM library, working memory, split-K counters and room for decoded
// weights. Kernels on the main queue may use all of it until they end; those on side queues only the library
// and their own queue's buffer of decoded weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/check.h"
#include "gpu/device/memory.h"
#include "gpu/gemm/kernel.h"
#include "gpu/gemm/library.h"
#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

constexpr int kMainQueue = 0;  // index of the queue of steps; the others are side queues

struct GemmResources {
  static constexpr size_t kValueCounters = 4096, kTileCounters = 4096;

  GemmDevice device;
  WgmmaRoom room = {};
  // Returns scratch memory that is valid until the next call: two calls may give the same.
  std::function<void*(size_t bytes)> workspace;
  std::unique_ptr<VendorGemm> library = nullptr;
  Buffer counters = {};          // kValueCounters, then kTileCounters
  Buffer decoded[kQueues] = {};  // products of different queues run at the same time

  float* partial_sums(size_t bytes) const { return static_cast<float*>(workspace(bytes)); }
  // Returns the first of `wanted` counters; they are zero, and the launch must leave them zero.
  uint32_t* value_counters(size_t wanted) const {
    FULMAR_CHECK(wanted <= kValueCounters);
    return static_cast<uint32_t*>(counters.data());
  }
  uint32_t* tile_counters(size_t wanted) const {
    FULMAR_CHECK(wanted <= kTileCounters);
    return static_cast<uint32_t*>(counters.data()) + kValueCounters;
  }
};

}  // namespace fulmar::gpu
