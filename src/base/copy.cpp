#include "base/copy.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace fulmar {

namespace {

// A share takes a core several times as long as a thread's start; so many threads saturate the memory.
constexpr size_t kLeastShare = size_t{2} << 20, kMostThreads = 8;
constexpr size_t kPage = 4096;

size_t threads_for(size_t bytes) {
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<size_t>(bytes / kLeastShare, 1, std::min(kMostThreads, cores));
}

}  // namespace

void copy_bytes(void* to, const void* from, size_t bytes) {
  const size_t threads = threads_for(bytes);
  const size_t share = (bytes / threads + kPage - 1) / kPage * kPage;
  const auto copy = [=](size_t begin, size_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                end - begin);
  };
  size_t end = bytes;
  std::vector<std::jthread> helpers;
  helpers.reserve(threads - 1);
  try {
    while (helpers.size() + 1 < threads && end > share) {
      helpers.emplace_back(copy, end - share, end);
      end -= share;
    }
  } catch (const std::system_error&) {
    // No further thread is to be had; this one takes the rest.
  }
  copy(0, end);
}

}  // namespace fulmar
