// The folder that files named by clients must lie in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

struct FilesRoot {
  std::filesystem::path folder;  // empty: files may lie anywhere
  std::string_view flag;         // that sets it, for errors: "--model-root"
  std::string_view what;         // likewise: "the folder for models"
};

// Returns the file that a client's `name` means, or with `folder_too` perhaps a folder, symbolic links
// resolved. Relative names start in the root; anything outside is refused, as are links out of it among the
// files that belong to the named one.
Result<std::filesystem::path> path_below(const FilesRoot& root, const std::string& name,
                                         bool folder_too = false);

}  // namespace fulmar
