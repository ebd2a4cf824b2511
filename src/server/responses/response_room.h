// Bounds the bytes of responses: decisions over plain numbers, and the reservations of responses that are
// being made. Knows no store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/fair_room.h"
#include "cache/document_store.h"
#include "server/core/errors.h"

namespace fulmar {

// Says why an owner's next `more` bytes are refused: 413 if they can never fit, 429 if the owner's own data
// must end first, 503 if other owners' must. `own.passing` may be evicted. `what`: names these bytes in the
// text.
std::optional<ApiError> refuse_more(const DocumentBytes& own, int64_t others, int64_t more,
                                    const RoomBounds& bounds, std::string_view what);

// Returns how many of an owner's evictable (passing) bytes must be removed before `more` are written.
int64_t surplus(const DocumentBytes& own, int64_t others, int64_t more, const RoomBounds& bounds);

// Bytes by owner. Thread-safe.
class RoomLedger {
 public:
  struct Held {
    int64_t own = 0, all = 0;
  };
  Held held(const std::string& owner) const;
  void add(const std::string& owner, int64_t bytes);  // negative: gives back

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> by_owner_;
  int64_t all_ = 0;
};

// A reservation of bytes for a response that is being made; the destructor gives it back.
class PromisedRoom {
 public:
  PromisedRoom(std::shared_ptr<RoomLedger> ledger, std::string owner, int64_t bytes)
      : ledger_(std::move(ledger)), owner_(std::move(owner)), bytes_(bytes) {
    ledger_->add(owner_, bytes_);
  }
  ~PromisedRoom() { ledger_->add(owner_, -bytes_); }
  PromisedRoom(const PromisedRoom&) = delete;
  PromisedRoom& operator=(const PromisedRoom&) = delete;

  int64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<RoomLedger> ledger_;
  const std::string owner_;
  const int64_t bytes_;
};
using PromisedRoomPtr = std::shared_ptr<const PromisedRoom>;

}  // namespace fulmar
