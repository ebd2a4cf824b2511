#include "files/small_file.h"

#include <fmt/format.h>

#include <fstream>

namespace fulmar {

Result<std::string> read_small_file(const std::filesystem::path& path, size_t most) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Error{ErrorKind::not_found, fmt::format("{}: no file that can be read", path.string())};
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > most) {
    return Error{ErrorKind::invalid,
                 fmt::format("{}: {} bytes; wanted at most {}", path.string(), size, most)};
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(error ? 0 : static_cast<size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (error || !file || static_cast<size_t>(file.gcount()) != text.size()) {
    return Error{ErrorKind::io, fmt::format("{}: cannot be read", path.string())};
  }
  return text;
}

}  // namespace fulmar
