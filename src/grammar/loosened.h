// What a constraint has given up of a schema that is not strict, as texts for whoever asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fulmar {

// What becomes of what cannot be kept.
enum class Strictness : uint8_t {
  strict,   // refused by name
  lenient,  // loosened: such a keyword asks for nothing, and the others are kept
};

// What a compile has loosened, a text for each keyword: its name, its place and why. At most kMost of them.
class Loosened {
 public:
  static constexpr size_t kMost = 16;
  // Adds a text, unless it is there.
  void add(std::string text);
  // The texts; where there were more than kMost, the last one says so.
  std::vector<std::string> texts() const;

 private:
  std::vector<std::string> texts_;
  size_t more_ = 0;
};

}  // namespace fulmar
