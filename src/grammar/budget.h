// What compiling an answer's form may cost. One budget counts for a whole request: whoever does work that
// grows with what a client sent takes it from here first. A Grammar takes from it for every place asked of
// it.
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
    states,   // of the automata behind 'pattern', 'format' and lengths
    work,     // comparisons, transitions: whatever else takes time
  };
  static constexpr size_t kItems = 4;
  using Limits = std::array<size_t, kItems>;
  static constexpr Limits kDefault = {size_t{512} << 10, 50'000, 16'384, 8'000'000};

  // `stop`: once it is true, every take fails; null: nobody stops the work. It must outlive the budget.
  explicit Budget(const Limits& limits = kDefault, const std::atomic<bool>* stop = nullptr)
      : remaining_(limits), limits_(limits), stop_(stop) {}

  // Errors: unsupported where more is asked for than is left, naming the item, what was asked for in all and
  // the limit; unavailable where the work was stopped. Work that was refused once is refused ever after.
  Status take(Item item, size_t amount = 1);
  size_t remaining(Item item) const { return remaining_[static_cast<size_t>(item)]; }
  size_t used(Item item) const { return limits_[static_cast<size_t>(item)] - remaining(item); }
  // Frees states that were taken since `remaining` of them were left.
  void free_states(size_t remaining) { remaining_[static_cast<size_t>(Item::states)] = remaining; }

 private:
  Limits remaining_;
  Limits limits_;
  const std::atomic<bool>* stop_;
};

}  // namespace fulmar
