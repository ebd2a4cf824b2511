#include "cache/database_file.h"

#include <system_error>

namespace fulmar {

namespace fs = std::filesystem;

bool may_hold_something(const fs::path& path) {
  std::error_code unknown;
  const fs::file_status found = fs::status(path, unknown);
  if (found.type() == fs::file_type::not_found) return false;
  return !fs::is_regular_file(found) || fs::file_size(path, unknown) != 0;
}

}  // namespace fulmar
