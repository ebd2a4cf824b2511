#include "cache/file_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace fulmar {
namespace {

// The byte of the file that is locked: far beyond those that SQLite locks.
constexpr off_t kLockedByte = off_t{1} << 60;

Error in_use(const std::filesystem::path& path) {
  return {ErrorKind::unavailable, fmt::format("database '{}' is in use by another server", path.string())};
}

Result<int> open_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  return Error{ErrorKind::io, fmt::format("database '{}': {}", path, std::strerror(errno))};
}

// Locks a byte for the open file, not for the process: a second lock conflicts within one process, too.
bool lock_byte(int file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kLockedByte;
  lock.l_len = 1;
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

}  // namespace

Result<FileLock> FileLock::take(const std::filesystem::path& path) {
  FULMAR_ASSIGN(const int name, open_file(path.string() + ".lock"));
  FileLock lock(-1, name);
  if (::flock(name, LOCK_EX | LOCK_NB) != 0) return in_use(path);
  FULMAR_ASSIGN(lock.file_, open_file(path.string()));
  if (!lock_byte(lock.file_)) return in_use(path);
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), name_(std::exchange(other.name_, -1)) {}

FileLock::~FileLock() {
  if (file_ >= 0) ::close(file_);
  if (name_ >= 0) ::close(name_);
}

}  // namespace fulmar
