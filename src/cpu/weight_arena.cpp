#include "cpu/weight_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace fulmar {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeastChunk = size_t{32} << 20;
constexpr size_t kAlignment = 64;

size_t rounded_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

Result<std::byte*> WeightArena::take(size_t bytes) {
  const size_t wanted = rounded_up(std::max<size_t>(bytes, 1), kAlignment);
  if (wanted < bytes || wanted > left_) {
    const size_t chunk = rounded_up(std::max(wanted, kLeastChunk), kHugePage);
    void* const data = chunk >= wanted && wanted >= bytes ? std::aligned_alloc(kHugePage, chunk) : nullptr;
    if (data == nullptr) {
      return Error{ErrorKind::resource, "cannot allocate " + std::to_string(bytes) + " bytes of memory"};
    }
    (void)madvise(data, chunk, MADV_HUGEPAGE);  // a system without them gives small pages
    chunks_.emplace_back(data, chunk, [](void* owned) { std::free(owned); });
    at_ = static_cast<std::byte*>(data);
    left_ = chunk;
  }
  left_ -= wanted;
  return std::exchange(at_, at_ + wanted);
}

}  // namespace fulmar
