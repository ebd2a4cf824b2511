// The errors of an overdrawn budget.
#include "grammar/budget.h"

#include <fmt/format.h>

namespace fulmar {
namespace {

constexpr std::string_view kNames[Budget::kItems] = {
    "bytes of JSON",
    "schemas within each other",
    "states for 'pattern', 'format' and lengths",
    "units of work",
};

}  // namespace

Status Budget::take(Item item, size_t amount) {
  if (stop_ && stop_->load(std::memory_order_relaxed)) {
    return Error{ErrorKind::unavailable, "compiling the schema was stopped: nobody waits for it any more"};
  }
  const auto at = static_cast<size_t>(item);
  if (amount <= remaining_[at]) {
    remaining_[at] -= amount;
    return {};
  }
  const size_t wanted = used(item) + amount;
  remaining_[at] = 0;
  return Error{
      ErrorKind::unsupported,
      fmt::format("the schema is too large to compile: it takes {} {} or more; at most {} are allowed",
                  wanted, kNames[at], limits_[at])};
}

}  // namespace fulmar
