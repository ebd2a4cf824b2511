// A bounded map in the order of use.
#include "control/session_homes.h"

namespace fulmar {

std::string SessionHomes::find(const std::string& session) {
  std::lock_guard lock(mutex_);
  return find_locked(session);
}

void SessionHomes::set(const std::string& session, const std::string& worker) {
  std::lock_guard lock(mutex_);
  set_locked(session, worker);
}

std::string SessionHomes::claim(const std::string& session, const std::string& worker) {
  std::lock_guard lock(mutex_);
  if (std::string home = find_locked(session); !home.empty()) return home;
  set_locked(session, worker);
  return worker;
}

std::string SessionHomes::find_locked(const std::string& session) {
  const auto place = places_.find(session);
  if (place == places_.end()) return {};
  by_use_.splice(by_use_.begin(), by_use_, place->second);
  return place->second->second;
}

void SessionHomes::set_locked(const std::string& session, const std::string& worker) {
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
