// Writes files; no other code does. Where a file cannot be written the error has the system's reason; callers
// that work long before they write check first.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

namespace fulmar {

// Returns the kind of error for a reason (errno) with which the system refuses to write: a full disk is no
// fault of the file.
ErrorKind kind_of_refusal(int reason);

// Checks that write_file can write there, or returns its error. Changes nothing.
Status check_writable(const std::filesystem::path& path);
// Checks that write_whole_file can write there, or returns its error. Changes nothing.
Status check_replaceable(const std::filesystem::path& path);

// Replaces the file's content, or creates the file. Errors (kind_of_refusal()) name the path
// and the system's reason.
Status write_file(const std::filesystem::path& path, std::string_view text);
// Writes like write_file, but after the present content.
Status append_to_file(const std::filesystem::path& path, std::string_view text);

// Writes a temporary file beside `path`, then renames it to `path`. If that fails, the temporary file is
// removed and an existing file at `path` stays as it was. Errors are those of write_file.
Status write_whole_file(const std::filesystem::path& path, FunctionRef<void(std::ostream&)> write);
Status write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fulmar
