// Files that are written: the one place of the program that does. Where a file cannot be written the error
// has the system's reason, and where much work comes before the writing it is asked for first.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

namespace fulmar {

// Says why write_file cannot write there, and changes nothing.
Status check_writable(const std::filesystem::path& path);
// Says why write_whole_file cannot write there, and changes nothing.
Status check_replaceable(const std::filesystem::path& path);

// Writes over what the file holds, or makes it. Errors ("io") name the path and the system's reason.
Status write_file(const std::filesystem::path& path, std::string_view text);
// As write_file, behind what the file holds.
Status append_to_file(const std::filesystem::path& path, std::string_view text);

// Writes into a file beside `path` of this process's own, which then takes its name. Where that fails nothing
// is left, and a file of that name stays as it was. Errors as those of write_file.
Status write_whole_file(const std::filesystem::path& path, FunctionRef<void(std::ostream&)> write);
Status write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fulmar
