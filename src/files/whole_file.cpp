#include "files/whole_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

namespace fulmar {

Status write_whole_file(const std::filesystem::path& path, FunctionRef<void(std::ostream&)> write) {
  std::filesystem::path beside = path;
  beside += fmt::format(".{}.part", getpid());
  std::error_code error;
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    write(file);
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(beside, path, error);
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(beside, ignored);
  return Error{ErrorKind::io, fmt::format("'{}' cannot be written: {}; is the disk full, or the folder not "
                                          "to be written to?",
                                          path.string(), error.message())};
}

}  // namespace fulmar
