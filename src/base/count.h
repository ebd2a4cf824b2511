// A number that a client has chosen, or that is computed from such numbers: tokens, rows, bytes. Sums,
// differences and products stop at the limits of int64_t instead of overflowing.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace fulmar {

class Count {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

  constexpr Count() = default;
  template <std::integral Integer>
  constexpr Count(Integer value)
      : value_(std::in_range<int64_t>(value) ? static_cast<int64_t>(value)
               : std::cmp_less(value, 0)     ? kLeast
                                             : kMost) {}

  constexpr int64_t value() const { return value_; }

  friend constexpr Count operator+(Count a, Count b) {
    int64_t sum = 0;
    if (!__builtin_add_overflow(a.value_, b.value_, &sum)) return sum;
    return b.value_ < 0 ? kLeast : kMost;
  }
  friend constexpr Count operator-(Count a, Count b) {
    int64_t difference = 0;
    if (!__builtin_sub_overflow(a.value_, b.value_, &difference)) return difference;
    return b.value_ < 0 ? kMost : kLeast;
  }
  friend constexpr Count operator*(Count a, Count b) {
    int64_t product = 0;
    if (!__builtin_mul_overflow(a.value_, b.value_, &product)) return product;
    return (a.value_ < 0) == (b.value_ < 0) ? kMost : kLeast;
  }
  constexpr Count& operator+=(Count other) { return *this = *this + other; }

  friend constexpr auto operator<=>(Count, Count) = default;

 private:
  int64_t value_ = 0;
};

}  // namespace fulmar
