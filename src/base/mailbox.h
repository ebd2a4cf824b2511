// A bounded queue between threads. Mailboxes are the only thing that the engine thread and the others share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace fulmar {

template <class T>
class Mailbox {
 public:
  // Makes a mailbox for at most `capacity` waiting messages; 0 means no bound.
  explicit Mailbox(size_t capacity = 0) : capacity_(capacity) {}

  // Adds a message. Returns false, and drops the message, when the mailbox is full or closed.
  bool put(T message) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || (capacity_ != 0 && messages_.size() >= capacity_)) return false;
      messages_.push_back(std::move(message));
    }
    arrived_.notify_one();
    return true;
  }

  // Takes all waiting messages, oldest first, without blocking.
  std::vector<T> take_all() {
    std::lock_guard lock(mutex_);
    return drain();
  }

  // Takes like take_all, but waits for a message, close(), wake(), or the end of `at_most`.
  template <class Rep, class Period>
  std::vector<T> wait_all(std::chrono::duration<Rep, Period> at_most) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, at_most, [this] { return closed_ || woken_ || !messages_.empty(); });
    woken_ = false;
    return drain();
  }

  // Makes one wait_all return early without a message.
  void wake() {
    {
      std::lock_guard lock(mutex_);
      woken_ = true;
    }
    arrived_.notify_one();
  }

  // Refuses further messages and wakes every waiter; what is inside can still be taken.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return messages_.size();
  }

 private:
  std::vector<T> drain() {
    std::vector<T> taken(std::make_move_iterator(messages_.begin()),
                         std::make_move_iterator(messages_.end()));
    messages_.clear();
    return taken;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<T> messages_;
  bool closed_ = false;
  bool woken_ = false;
};

}  // namespace fulmar
