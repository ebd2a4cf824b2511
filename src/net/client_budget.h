// Load shedding: bounds what a server holds at one time for its clients (bytes of bodies, connections), and
// shares it fairly among them. Knows no socket.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace fulmar {

// A client may hold as much as then remains free for all others: alone half of it all. However many clients
// hold all they can, a new one may still take half of what is free. Thread-safe.
class ClientBudget {
 public:
  explicit ClientBudget(size_t most) : most_(most) {}

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

  // Takes an amount. Returns false, and takes nothing, when the client would hold more than it may.
  bool take(const std::string& client, size_t amount) {
    std::lock_guard lock(mutex_);
    const auto found = by_client_.find(client);
    const size_t own = found == by_client_.end() ? 0 : found->second;
    const size_t free = most_ - held_;
    if (amount > free || own + amount > free - amount) return false;
    if (amount == 0) return true;
    by_client_[client] = own + amount;
    held_ += amount;
    return true;
  }
  void give_back(const std::string& client, size_t amount) {
    std::lock_guard lock(mutex_);
    const auto found = by_client_.find(client);
    if (amount == 0 || found == by_client_.end()) return;
    held_ -= amount;
    found->second -= amount;
    if (found->second == 0) by_client_.erase(found);
  }

 private:
  const size_t most_;
  mutable std::mutex mutex_;
  size_t held_ = 0;
  std::unordered_map<std::string, size_t> by_client_;  // none that holds nothing
};

// What one body or connection holds of a budget, given back on destruction.
class ClientLease {
 public:
  ClientLease() = default;
  ClientLease(std::shared_ptr<ClientBudget> budget, std::string client)
      : budget_(std::move(budget)), client_(std::move(client)) {}
  ClientLease(ClientLease&& other) noexcept
      : budget_(std::move(other.budget_)),
        client_(std::move(other.client_)),
        amount_(std::exchange(other.amount_, 0)) {}
  ClientLease& operator=(ClientLease&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(client_, other.client_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~ClientLease() { give_back(); }

  // Takes more. Returns whether the budget allows it.
  bool grow(size_t amount) {
    if (!budget_->take(client_, amount)) return false;
    amount_ += amount;
    return true;
  }
  void give_back() {
    if (budget_) budget_->give_back(client_, std::exchange(amount_, 0));
  }

 private:
  std::shared_ptr<ClientBudget> budget_;
  std::string client_;
  size_t amount_ = 0;
};

}  // namespace fulmar
