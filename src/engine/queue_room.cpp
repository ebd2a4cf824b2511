#include "engine/queue_room.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "base/fair_room.h"

namespace fulmar {

namespace {

// One of the three numbers of a QueueUse, with its name.
struct UseCount {
  int64_t QueueUse::*of;
  std::string_view what;
};
constexpr UseCount kCounts[] = {
    {&QueueUse::requests, "requests"}, {&QueueUse::rows, "rows"}, {&QueueUse::bytes, "bytes of rows"}};

}  // namespace

Status refuse_waiting(const QueueUse& own, const QueueUse& others, const QueueUse& more, const QueueUse& most,
                      bool shares) {
  const bool first = own.rows + others.rows == 0;
  for (const UseCount& count : kCounts) {
    if (first && count.of != &QueueUse::requests) break;
    const int64_t held = own.*count.of;
    const int64_t all = most.*count.of;
    if (held + others.*count.of + more.*count.of > all) {
      return Error{ErrorKind::unavailable, std::string(kQueueFull)};
    }
    const int64_t room = room_of(held, others.*count.of, {.owner = all, .all = all});
    if (shares && held + more.*count.of > room) {
      return Error{ErrorKind::unavailable,
                   fmt::format("{} for this key: {} of its {} wait, and {} more do not fit into the {} that "
                               "may be its own now",
                               kQueueFull, held, count.what, more.*count.of, room)};
    }
  }
  return {};
}

Status QueueRoom::take(const std::string& owner, const QueueUse& more) {
  std::lock_guard lock(mutex_);
  const auto found = by_owner_.find(owner);
  const QueueUse own = found == by_owner_.end() ? QueueUse{} : found->second;
  FULMAR_TRY(refuse_waiting(own, all_ - own, more, most_, !owner.empty()));
  by_owner_[owner] = own + more;
  all_ = all_ + more;
  return {};
}

void QueueRoom::give_back(const std::string& owner, const QueueUse& use) {
  std::lock_guard lock(mutex_);
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  found->second = found->second - use;
  all_ = all_ - use;
  if (found->second == QueueUse{}) by_owner_.erase(found);
}

QueueUse QueueRoom::all() const {
  std::lock_guard lock(mutex_);
  return all_;
}

}  // namespace fulmar
