// A bounded map in the order of use.
#include "control/session_homes.h"

namespace fulmar {

std::string SessionHomes::find(const std::string& session) {
  std::lock_guard lock(mutex_);
  const auto place = places_.find(session);
  if (place == places_.end()) return {};
  by_use_.splice(by_use_.begin(), by_use_, place->second);
  return place->second->second;
}

void SessionHomes::set(const std::string& session, const std::string& worker) {
  std::lock_guard lock(mutex_);
  if (const auto place = places_.find(session); place != places_.end()) {
    place->second->second = worker;
    by_use_.splice(by_use_.begin(), by_use_, place->second);
    return;
  }
  by_use_.emplace_front(session, worker);
  places_[session] = by_use_.begin();
  if (places_.size() > most_) {
    places_.erase(by_use_.back().first);
    by_use_.pop_back();
  }
}

}  // namespace fulmar
