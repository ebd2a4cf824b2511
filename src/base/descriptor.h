// A file descriptor that is closed when its owner goes.
#pragma once

#include <unistd.h>

#include <utility>

namespace fulmar {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}  // below 0: none
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(-1); }

  int number() const { return number_; }
  // Gives the descriptor away: the caller closes it.
  int release() { return std::exchange(number_, -1); }
  // Closes the descriptor and owns `number` instead.
  void reset(int number) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }

 private:
  int number_;
};

}  // namespace fulmar
