// A constexpr list with a fixed capacity, for tables of constants.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace fulmar {

// Has room for `most`.
template <class T, size_t most>
class Few {
 public:
  constexpr Few() = default;
  constexpr Few(const T* one) : Few({one}) {}
  constexpr Few(std::initializer_list<const T*> all) { add(all); }
  constexpr std::span<const T* const> all() const { return {list_.data(), count_}; }
  constexpr void add(std::span<const T* const> more) {
    for (const T* one : more) list_.at(count_++) = one;
  }
  constexpr bool empty() const { return count_ == 0; }

 private:
  std::array<const T*, most> list_ = {};
  size_t count_ = 0;
};

}  // namespace fulmar
