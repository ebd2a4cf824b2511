// Bounds the cost of compiling an answer's form. One budget serves a whole request: code whose work grows
// with what a client sent takes it from the budget first. A Grammar takes an item for every place that is
// asked of it.
#pragma once

#include <array>
#include <atomic>
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
    states,   // of the automata for 'pattern', 'format' and lengths
    work,     // comparisons, transitions: whatever else takes time
  };
  static constexpr size_t kItems = 4;
  using Limits = std::array<size_t, kItems>;
  static constexpr Limits kDefault = {size_t{512} << 10, 50'000, 16'384, 8'000'000};

  // Starts with all of `limits`. While `stop` (may be null; outlives the budget) is true, every take fails.
  explicit Budget(const Limits& limits = kDefault, const std::atomic<bool>* stop = nullptr)
      : remaining_(limits), limits_(limits), stop_(stop) {}

  // Takes `amount` of an item. Errors: unsupported where less is left, with the item, the total asked for and
  // the limit; unavailable where the work was stopped. After a refusal every further take is refused.
  Status take(Item item, size_t amount = 1);
  size_t remaining(Item item) const { return remaining_[static_cast<size_t>(item)]; }
  size_t used(Item item) const { return limits_[static_cast<size_t>(item)] - remaining(item); }
  // Returns states that were taken since `remaining` of them were left.
  void free_states(size_t remaining) { remaining_[static_cast<size_t>(Item::states)] = remaining; }

 private:
  Limits remaining_;
  Limits limits_;
  const std::atomic<bool>* stop_;
};

}  // namespace fulmar
