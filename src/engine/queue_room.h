// How much may wait for a slot, and how owners share that. Knows no engine.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// How every refusal for want of room begins; all of it where the queue itself is full.
inline constexpr std::string_view kQueueFull = "Request queue full";

// What waits, or may.
struct QueueUse {
  int64_t requests = 0;  // without a first slot
  int64_t rows = 0;      // without a slot
  int64_t bytes = 0;     // that those rows take of host memory

  QueueUse operator+(const QueueUse& other) const {
    return {requests + other.requests, rows + other.rows, bytes + other.bytes};
  }
  QueueUse operator-(const QueueUse& other) const {
    return {requests - other.requests, rows - other.rows, bytes - other.bytes};
  }
  bool operator==(const QueueUse&) const = default;
};

// Says why a request that takes `more` is not to wait behind what its owner and the others have waiting.
// Where nobody has a row waiting, one request may have as many rows and bytes as it likes. `shares`: the
// owner has to leave room for others, as room_of() says; the server's own, and everybody without keys, has
// not.
Status refuse_waiting(const QueueUse& own, const QueueUse& others, const QueueUse& more, const QueueUse& most,
                      bool shares);

// What waits by owner, from any thread.
class QueueRoom {
 public:
  explicit QueueRoom(const QueueUse& most) : most_(most) {}

  // Lets a request of the owner wait, or says why not.
  Status take(const std::string& owner, const QueueUse& more);
  void give_back(const std::string& owner, const QueueUse& use);
  QueueUse all() const;

 private:
  const QueueUse most_;
  mutable std::mutex mutex_;
  std::map<std::string, QueueUse> by_owner_;
  QueueUse all_;
};

}  // namespace fulmar
