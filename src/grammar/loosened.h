// What a constraint does not enforce of a schema that is not strict, as texts for the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fulmar {

// What happens to keywords that cannot be enforced.
enum class Strictness : uint8_t {
  strict,   // refused by name
  lenient,  // loosened: such a keyword asks for nothing, and the others are kept
};

// What a compile has loosened: for each keyword a text with its name, place and reason, at most kMost.
class Loosened {
 public:
  static constexpr size_t kMost = 16;
  // Adds a text, unless it is there already.
  void add(std::string text);
  // Returns the texts; if there were more than kMost, the last one says so.
  std::vector<std::string> texts() const;

 private:
  std::vector<std::string> texts_;
  size_t more_ = 0;
};

}  // namespace fulmar
