// Which worker holds a session. Any thread; bounded, the session asked for longest ago is forgotten first.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace fulmar {

class SessionHomes {
 public:
  SessionHomes() = default;
  explicit SessionHomes(size_t most) : most_(most) {}

  // Returns the id of the session's worker, or an empty text.
  std::string find(const std::string& session);
  void set(const std::string& session, const std::string& worker);
  // Makes `worker` the session's home unless it has one; returns its home.
  std::string claim(const std::string& session, const std::string& worker);

 private:
  std::string find_locked(const std::string& session);
  void set_locked(const std::string& session, const std::string& worker);

  using Entry = std::pair<std::string, std::string>;  // session, worker

  const size_t most_ = 100'000;
  std::mutex mutex_;
  std::list<Entry> by_use_;  // most recent first
  std::unordered_map<std::string, std::list<Entry>::iterator> places_;
};

}  // namespace fulmar
