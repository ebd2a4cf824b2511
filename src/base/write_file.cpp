#include "base/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // of which umask takes

Error unwritable(const fs::path& path, int reason) {
  return {kind_of_refusal(reason), fmt::format("'{}' cannot be written: {}", path.string(),
                                               std::strerror(reason != 0 ? reason : EIO))};
}

fs::path beside(const fs::path& path) {
  fs::path name = path;
  return name += fmt::format(".{}.part", ::getpid());
}

// Opens a file to write. Refuses a named pipe that nobody reads instead of waiting; writes to one that is
// read may wait.
int open_to_write(const fs::path& path, int flags) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, kMode);
  if (file >= 0) ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

// Returns 0 if a file can be written there, else errno. Leaves an existing file as it is.
int fault_of_writing(const fs::path& path) {
  std::error_code error;
  const bool there = fs::exists(fs::symlink_status(path, error));
  const int file = open_to_write(path, 0);
  if (file < 0) return errno;
  ::close(file);
  if (!there) ::unlink(path.c_str());
  return 0;
}

// Writes everything and closes. Returns 0, or errno of what failed.
int write_and_close(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      ::close(file);
      return reason;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return ::close(file) == 0 ? 0 : errno;
}

Status write_opened(const fs::path& path, std::string_view text, int flags) {
  const int file = open_to_write(path, flags);
  if (file < 0) return unwritable(path, errno);
  if (const int reason = write_and_close(file, text); reason != 0) return unwritable(path, reason);
  return {};
}

// A file that keeps why it could first not be written: what its writer does afterwards may set errno.
class ReasonedFile : public std::filebuf {
 public:
  // Returns errno of the first failure, or 0.
  int reason() const { return reason_; }
  // Keeps errno as the reason, unless `fine` or there is one. Returns `fine`.
  bool keep_unless(bool fine) {
    if (!fine && reason_ == 0) reason_ = errno != 0 ? errno : EIO;
    return fine;
  }

 protected:
  int_type overflow(int_type next) override {
    errno = 0;
    const int_type done = std::filebuf::overflow(next);
    keep_unless(done != traits_type::eof());
    return done;
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    errno = 0;
    const std::streamsize done = std::filebuf::xsputn(bytes, count);
    keep_unless(done == count);
    return done;
  }
  int sync() override {
    errno = 0;
    const int done = std::filebuf::sync();
    keep_unless(done == 0);
    return done;
  }

 private:
  int reason_ = 0;
};

// Returns 0, or errno of what failed.
int write_stream(const fs::path& path, FunctionRef<void(std::ostream&)> write) {
  ReasonedFile file;
  errno = 0;
  const bool opened = file.open(path, std::ios::out | std::ios::binary | std::ios::trunc) != nullptr;
  if (!file.keep_unless(opened)) return file.reason();
  std::ostream stream(&file);
  write(stream);
  const bool written = stream.good();
  errno = 0;
  file.keep_unless(file.close() != nullptr);
  if (file.reason() == 0 && !written) return EIO;
  return file.reason();
}

}  // namespace

ErrorKind kind_of_refusal(int reason) {
  return reason == ENOSPC || reason == EDQUOT ? ErrorKind::resource : ErrorKind::io;
}

Status check_writable(const fs::path& path) {
  const int reason = fault_of_writing(path);
  return reason == 0 ? Status() : unwritable(path, reason);
}

Status check_replaceable(const fs::path& path) {
  std::error_code error;
  const int reason = fs::is_directory(path, error) ? EISDIR : fault_of_writing(beside(path));
  return reason == 0 ? Status() : unwritable(path, reason);
}

Status write_file(const fs::path& path, std::string_view text) { return write_opened(path, text, O_TRUNC); }

Status append_to_file(const fs::path& path, std::string_view text) {
  return write_opened(path, text, O_APPEND);
}

Status write_whole_file(const fs::path& path, FunctionRef<void(std::ostream&)> write) {
  const fs::path part = beside(path);
  int reason = write_stream(part, write);
  if (reason == 0 && ::rename(part.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return {};
  ::unlink(part.c_str());
  return unwritable(path, reason);
}

Status write_whole_file(const fs::path& path, std::string_view text) {
  return write_whole_file(
      path, [&](std::ostream& file) { file.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

}  // namespace fulmar
