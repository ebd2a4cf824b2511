// Path patterns of route tables, in which one "*" stands for any text of at least one byte.
#pragma once

#include <string_view>

namespace fulmar {

// Returns whether `path` fits `pattern`; sets `argument` to the text in place of the "*".
inline bool path_fits(std::string_view pattern, std::string_view path, std::string_view& argument) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (path.size() < pattern.size() || !path.starts_with(before) || !path.ends_with(behind)) return false;
  argument = path.substr(star, path.size() - before.size() - behind.size());
  return true;
}

}  // namespace fulmar
