// Text without the white space at its ends.
#pragma once

#include <string_view>

namespace fulmar {

inline constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

inline std::string_view stripped(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

}  // namespace fulmar
