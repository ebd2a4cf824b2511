// Limits on what waits for a slot, and how owners share them. Knows no engine.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// The beginning of every refusal for lack of room, and the whole text if the queue itself is full.
inline constexpr std::string_view kQueueFull = "Request queue full";

// Amounts that wait, or may.
struct QueueUse {
  int64_t requests = 0;  // without a first slot
  int64_t rows = 0;      // without a slot
  int64_t bytes = 0;     // of host memory, for those rows

  QueueUse operator+(const QueueUse& other) const {
    return {requests + other.requests, rows + other.rows, bytes + other.bytes};
  }
  QueueUse operator-(const QueueUse& other) const {
    return {requests - other.requests, rows - other.rows, bytes - other.bytes};
  }
  bool operator==(const QueueUse&) const = default;
};

// Returns an error saying why a request that takes `more` may not wait in addition to its owner's and
// others' waiting rows. Where nobody waits, one request may have any number of rows and bytes.
// `shares`: the owner must leave room for others (room_of()); not set for the server's own requests,
// nor for all requests of a server without keys.
Status refuse_waiting(const QueueUse& own, const QueueUse& others, const QueueUse& more, const QueueUse& most,
                      bool shares);

// Counts what waits by owner, from any thread.
class QueueRoom {
 public:
  explicit QueueRoom(const QueueUse& most) : most_(most) {}

  // Counts a request of the owner as waiting, or returns why it may not.
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
