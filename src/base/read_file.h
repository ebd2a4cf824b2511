// Files that somebody names, read whole: the one place of the program that does. A name may lead anywhere, so
// what is no regular file is refused and not waited for, and every reader says how much it takes.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace fulmar {

// For texts, suites and other files whose size is the user's business.
inline constexpr size_t kMostFileBytes = size_t{1} << 30;

// Returns the content of a regular file of at most `most` bytes. Errors name the file and why it cannot be
// read: not_found where no regular file is, invalid for a larger one, else io.
Result<std::string> read_file(const std::filesystem::path& path, size_t most);

// As read_file, but returns the first `most` bytes of a larger file.
Result<std::string> read_beginning(const std::filesystem::path& path, size_t most);

// As read_beginning; empty where nothing can be read.
std::string read_if_there(const std::filesystem::path& path, size_t most);

// Returns standard input to its end; invalid where that has more than kMostFileBytes.
Result<std::string> read_input();

}  // namespace fulmar
