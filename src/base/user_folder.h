// The folders of this user for this program, by the XDG base directory specification.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace fulmar {

// Returns the folder fulmar/ below the path in `variable`, else below `below_home` in the home folder;
// nothing without a home. Ignores a relative path in the variable, as the specification says.
inline std::optional<std::filesystem::path> user_folder(const char* variable, const char* below_home) {
  if (const char* named = std::getenv(variable); named != nullptr && *named == '/') {
    return std::filesystem::path(named) / "fulmar";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr) return std::nullopt;
  return std::filesystem::path(home) / below_home / "fulmar";
}

}  // namespace fulmar
