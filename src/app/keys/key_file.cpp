// The lock is a file of its own, since the key file is replaced with every change.
#include "app/keys/key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/descriptor.h"

namespace fulmar {
namespace {

// Holds the lock until it is destroyed.
class KeyFileLock {
 public:
  explicit KeyFileLock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    int refused = file_.number() < 0 ? -1 : 0;
    while (file_.number() >= 0 && (refused = ::flock(file_.number(), LOCK_EX)) != 0 && errno == EINTR) {
    }
    if (refused != 0) {
      fault_ = Error{ErrorKind::io, fmt::format("'{}': cannot lock: {}", path, std::strerror(errno))};
    }
  }
  const Status& held() const { return fault_; }

 private:
  const Descriptor file_;
  Status fault_;
};

}  // namespace

Status change_api_keys(const std::filesystem::path& path, bool new_file,
                       const std::function<Status(std::vector<ApiKey>&)>& change) {
  const KeyFileLock lock(path.string() + ".lock");
  FULMAR_TRY(lock.held());
  std::vector<ApiKey> keys;
  std::error_code error;
  if (!new_file || std::filesystem::exists(path, error)) {
    FULMAR_ASSIGN(keys, read_api_keys(path));
  }
  FULMAR_TRY(change(keys));
  return write_api_keys(path, keys);
}

}  // namespace fulmar
