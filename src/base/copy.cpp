#include "base/copy.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "base/thread.h"

namespace fulmar {

namespace {

// A share takes a core several times as long as starting a thread; this many threads saturate the memory.
constexpr size_t kLeastShare = size_t{2} << 20, kMostThreads = 8;
constexpr size_t kPage = 4096;

size_t threads_for(size_t bytes) {
  return std::clamp<size_t>(bytes / kLeastShare, 1, std::min<size_t>(kMostThreads, processor_threads()));
}

}  // namespace

void copy_bytes(void* to, const void* from, size_t bytes) {
  const size_t threads = threads_for(bytes);
  const size_t share = (bytes / threads + kPage - 1) / kPage * kPage;
  std::atomic<size_t> next = 0;
  run_on_threads(static_cast<unsigned>(threads), [&](unsigned) {
    for (size_t begin = next.fetch_add(share); begin < bytes; begin = next.fetch_add(share)) {
      std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                  std::min(share, bytes - begin));
    }
  });
}

}  // namespace fulmar
