#include "base/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/descriptor.h"

namespace fulmar {
namespace {

Error unreadable(std::string_view name, ErrorKind kind, std::string_view reason) {
  return {kind, fmt::format("{} cannot be read: {}", name, reason)};
}

Error system_error(std::string_view name) {
  const ErrorKind kind = errno == ENOENT || errno == ENOTDIR ? ErrorKind::not_found : ErrorKind::io;
  return unreadable(name, kind, std::strerror(errno));
}

// Returns what can be read of the file, up to `most` bytes.
Result<std::string> read_up_to(int file, size_t most, std::string_view name) {
  std::string text;
  std::array<char, 1 << 16> chunk;
  while (text.size() < most) {
    const ssize_t got = ::read(file, chunk.data(), std::min(chunk.size(), most - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(name);
    if (got == 0) break;
    text.append(chunk.data(), static_cast<size_t>(got));
  }
  return text;
}

// Opens and reads a file of any reported size: the file system reports 0 for files of /proc.
Result<std::string> open_and_read(const std::filesystem::path& path, size_t most, std::string_view name) {
  // O_NONBLOCK keeps a named pipe from blocking here; it has no effect on regular files.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) return system_error(name);
  if (S_ISDIR(status.st_mode)) return unreadable(name, ErrorKind::not_found, "it is a folder");
  if (!S_ISREG(status.st_mode)) return unreadable(name, ErrorKind::not_found, "it is no regular file");
  return read_up_to(file.number(), most, name);
}

// Refuses a text of more than `most` bytes.
Result<std::string> bounded(Result<std::string> text, size_t most, std::string_view name) {
  if (!text.ok() || text->size() <= most) return text;
  return Error{ErrorKind::invalid,
               fmt::format("{} has more than {} bytes; wanted at most {}", name, most, most)};
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, size_t most) {
  const std::string name = fmt::format("'{}'", path.string());
  return bounded(open_and_read(path, most + 1, name), most, name);
}

Result<std::string> read_beginning(const std::filesystem::path& path, size_t most) {
  return open_and_read(path, most, fmt::format("'{}'", path.string()));
}

std::string read_if_there(const std::filesystem::path& path, size_t most) {
  auto text = read_beginning(path, most);
  return text.ok() ? std::move(*text) : std::string();
}

Result<std::string> read_input() {
  constexpr std::string_view kName = "standard input";
  return bounded(read_up_to(STDIN_FILENO, kMostFileBytes + 1, kName), kMostFileBytes, kName);
}

}  // namespace fulmar
