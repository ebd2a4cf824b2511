// A small file, read whole.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace fulmar {

// The content of a regular file of at most `most` bytes. Errors begin with the path: not_found, invalid for a
// larger one, io.
Result<std::string> read_small_file(const std::filesystem::path& path, size_t most);

}  // namespace fulmar
