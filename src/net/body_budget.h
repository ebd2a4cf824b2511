// Load shedding by memory: how many bytes of request bodies a server holds at one time. Knows no socket.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace fulmar {

// Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(size_t most) : most_(most) {}

  size_t most() const { return most_; }
  size_t held() const { return held_; }

  // Takes `bytes` more for one who has `own` of them already. False, and nothing is taken, when the sum would
  // exceed the budget and others hold a part of it: alone, a body may be larger.
  bool take(size_t own, size_t bytes) {
    const size_t sum = held_.fetch_add(bytes) + bytes;
    if (sum <= most_ || sum == own + bytes) return true;
    held_.fetch_sub(bytes);
    return false;
  }
  void give_back(size_t bytes) { held_.fetch_sub(bytes); }

 private:
  const size_t most_;
  std::atomic<size_t> held_{0};
};

// One body's part of the budget, given back when it goes.
class BodyLease {
 public:
  BodyLease() = default;
  explicit BodyLease(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyLease(BodyLease&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyLease& operator=(BodyLease&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyLease() { give_back(); }

  // False when the budget does not allow it.
  bool grow(size_t bytes) {
    if (!budget_->take(bytes_, bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  void give_back() {
    if (budget_) budget_->give_back(std::exchange(bytes_, 0));
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  size_t bytes_ = 0;
};

}  // namespace fulmar
