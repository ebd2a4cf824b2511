// Load shedding by memory: bounds the bytes of request bodies that a server holds at one time, and shares
// them fairly among clients. Knows no socket.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace fulmar {

// A client may hold as many bytes as then remain free for all others: alone half of them all. However many
// clients hold all they can, a new one may still take half of what is free. Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(size_t most) : most_(most) {}

  size_t most() const { return most_; }
  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_;
  }
  size_t held_by(const std::string& client) const {
    std::lock_guard lock(mutex_);
    const auto found = by_client_.find(client);
    return found == by_client_.end() ? 0 : found->second;
  }

  // Takes bytes. Returns false, and takes nothing, when the client would hold more than it may.
  bool take(const std::string& client, size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto found = by_client_.find(client);
    const size_t own = found == by_client_.end() ? 0 : found->second;
    const size_t free = most_ - held_;
    if (bytes > free || own + bytes > free - bytes) return false;
    if (bytes == 0) return true;
    by_client_[client] = own + bytes;
    held_ += bytes;
    return true;
  }
  void give_back(const std::string& client, size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto found = by_client_.find(client);
    if (bytes == 0 || found == by_client_.end()) return;
    held_ -= bytes;
    found->second -= bytes;
    if (found->second == 0) by_client_.erase(found);
  }

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  size_t held_ = 0;
  std::unordered_map<std::string, size_t> by_client_;  // none without a byte
};

// One body's bytes of a budget, given back on destruction.
class BodyLease {
 public:
  BodyLease() = default;
  BodyLease(std::shared_ptr<BodyBudget> budget, std::string client)
      : budget_(std::move(budget)), client_(std::move(client)) {}
  BodyLease(BodyLease&& other) noexcept
      : budget_(std::move(other.budget_)),
        client_(std::move(other.client_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  BodyLease& operator=(BodyLease&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(client_, other.client_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyLease() { give_back(); }

  // Takes more bytes. Returns whether the budget allows it.
  bool grow(size_t bytes) {
    if (!budget_->take(client_, bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  void give_back() {
    if (budget_) budget_->give_back(client_, std::exchange(bytes_, 0));
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  std::string client_;
  size_t bytes_ = 0;
};

}  // namespace fulmar
