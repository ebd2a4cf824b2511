// What compiling a schema may cost. One budget counts for a whole request: whoever does work that grows with
// what a client sent takes it from here first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace fulmar {

class Budget {
 public:
  enum class Item : uint8_t {
    bytes,    // of the schemas as JSON text
    schemas,  // that are compiled, each once however often it is referred to
    states,   // of the automata behind 'pattern', 'format' and lengths
    work,     // comparisons, transitions: whatever else takes time
  };
  static constexpr size_t kItems = 4;
  using Limits = std::array<size_t, kItems>;
  static constexpr Limits kDefault = {size_t{512} << 10, 50'000, 16'384, 8'000'000};

  explicit Budget(const Limits& limits = kDefault) : remaining_(limits), limits_(limits) {}

  // Errors (unsupported): more than is left, naming the item, what was asked for in all and the limit.
  Status take(Item item, size_t amount = 1);
  size_t remaining(Item item) const { return remaining_[static_cast<size_t>(item)]; }
  size_t used(Item item) const { return limits_[static_cast<size_t>(item)] - remaining(item); }

 private:
  Limits remaining_;
  Limits limits_;
};

}  // namespace fulmar
