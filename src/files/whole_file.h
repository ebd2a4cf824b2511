// A file that appears under its name only when it is complete.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "base/function_ref.h"
#include "base/result.h"

namespace fulmar {

// Writes into a file beside `path` of this process's own, which then takes its name. Where that fails nothing
// is left, a file of that name stays as it was, and the error ("io") names the path.
Status write_whole_file(const std::filesystem::path& path, FunctionRef<void(std::ostream&)> write);

}  // namespace fulmar
