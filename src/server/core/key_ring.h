// The valid keys, what each has used, and whether it is within its limits. Thread-safe; the time is handed
// in.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/core/api_keys.h"
#include "server/core/errors.h"
#include "server/core/rate_limit.h"

namespace fulmar {

// What a key has used since the server began.
struct KeyUsage {
  int64_t requests = 0;
  int64_t refused = 0;  // by one of its limits
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t rows = 0;  // running or queued now
};

// How a key must name a route to open it, unless it administers.
enum class Grant : uint8_t {
  unsaid,   // not at all, where it lists no routes
  listed,   // by name or pattern
  by_name,  // in full: the route changes the server for all
};

// One key's account. Requests that still run when the key is removed keep it alive.
class KeyAccount {
 public:
  using Clock = RateLimit::Clock;

  KeyAccount(ApiKey key, Clock::time_point now);

  // Replaces the key's limits; what was used stays used.
  void change(ApiKey key, Clock::time_point now);

  // Counts a request, or says why it is refused: 403 for a path that the key does not open, 429 with the time
  // to wait when a limit per minute is reached.
  std::optional<ApiError> admit_request(std::string_view path, Grant grant, Clock::time_point now);
  // Takes `rows` more and charges their prompts, or says why not: 400 for more rows than the key may ever
  // have at once, 429 for more than it may have now.
  std::optional<ApiError> admit_rows(int64_t rows, int64_t prompt_tokens, Clock::time_point now);
  // Takes rows that were admitted before, by a server that has ended: they count, whatever the limits say.
  void take_up_rows(int64_t rows, int64_t prompt_tokens, Clock::time_point now);
  void give_back_rows(int64_t rows);
  void charge_generated(int64_t tokens, Clock::time_point now);

  // Tells whether the key opens `path` when it has to name it as `grant` says. Keys that administer open
  // everything.
  bool opens(std::string_view path, Grant grant) const;
  bool administers() const;

  // Marks the key as removed: work that runs for it ends.
  void revoke() { revoked_ = true; }
  bool revoked() const { return revoked_; }

  std::string name() const;
  KeyUsage usage() const;

 private:
  ApiError refuse(std::string text, double wait_seconds);
  bool opens_locked(std::string_view path, Grant grant) const;
  void count_rows(int64_t rows, int64_t prompt_tokens, Clock::time_point now);

  mutable std::mutex mutex_;
  ApiKey key_;
  RateLimit requests_, tokens_;
  KeyUsage usage_;
  std::atomic<bool> revoked_ = false;
};

using KeyAccountPtr = std::shared_ptr<KeyAccount>;

// Returns the error that ends the work of a removed key; nothing for a valid key and without a key.
std::optional<ApiError> refuse_revoked(const KeyAccountPtr& account);

// Rows taken from an account; the destructor gives them back.
class RowLease {
 public:
  RowLease() = default;
  RowLease(std::shared_ptr<KeyAccount> account, int64_t rows) : account_(std::move(account)), rows_(rows) {}
  RowLease(RowLease&& other) noexcept = default;
  RowLease& operator=(RowLease&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(rows_, other.rows_);
    return *this;
  }
  ~RowLease() {
    if (account_) account_->give_back_rows(rows_);
  }

 private:
  std::shared_ptr<KeyAccount> account_;
  int64_t rows_ = 0;
};

// The part of its client's key that a background response keeps using.
struct KeyShare {
  std::shared_ptr<KeyAccount> account;  // null: no account
  RowLease rows;
};

class KeyRing {
 public:
  // Replaces all keys. Accounts whose names stay are continued, the others are revoked.
  void replace(std::vector<ApiKey> keys, KeyAccount::Clock::time_point now);

  // Returns the account whose key is `offered`, or null.
  std::shared_ptr<KeyAccount> find(std::string_view offered) const;
  // Returns the account of the key with that name, or null.
  std::shared_ptr<KeyAccount> named(std::string_view name) const;
  // Returns all accounts, sorted by name.
  std::vector<std::shared_ptr<KeyAccount>> all() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_hash_;
};

}  // namespace fulmar
