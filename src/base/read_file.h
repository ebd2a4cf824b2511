// Reads whole files that a user names; no other code does. A path may lead anywhere, so anything but a
// regular file is refused without waiting for it, and every reader says how many bytes it accepts.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace fulmar {

// For texts, suites and other files whose size is the user's business.
inline constexpr size_t kMostFileBytes = size_t{1} << 30;

// Returns the content of a regular file of at most `most` bytes. Errors name the file and the reason:
// not_found where there is no regular file, invalid for a larger one, else io.
Result<std::string> read_file(const std::filesystem::path& path, size_t most);

// Reads like read_file, but returns the first `most` bytes of a larger file.
Result<std::string> read_beginning(const std::filesystem::path& path, size_t most);

// Reads like read_beginning; returns an empty string where nothing can be read.
std::string read_if_there(const std::filesystem::path& path, size_t most);

// Reads standard input to its end. Error invalid: it has more than kMostFileBytes.
Result<std::string> read_input();

}  // namespace fulmar
