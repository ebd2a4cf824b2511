// The lock is a file of its own, since the key file is replaced with every change.
#include "app/keys/key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/descriptor.h"
#include "base/log.h"

namespace fulmar {
namespace {

// Holds the lock until it is destroyed.
class KeyFileLock {
 public:
  // Makes the lock, whoever does it, one of the locked file's owner.
  explicit KeyFileLock(const std::string& locked)
      : path_(locked + ".lock"), file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    struct stat owner {};
    if (file_.number() >= 0 && ::stat(locked.c_str(), &owner) == 0 &&
        ::fchown(file_.number(), owner.st_uid, owner.st_gid) != 0) {
      spdlog::debug("'{}' keeps its owner: {}", path_, std::strerror(errno));
    }
    int refused = file_.number() < 0 ? -1 : 0;
    while (file_.number() >= 0 && (refused = ::flock(file_.number(), LOCK_EX)) != 0 && errno == EINTR) {
    }
    if (refused != 0) {
      fault_ = Error{ErrorKind::io, fmt::format("'{}': cannot lock: {}", path_, std::strerror(errno))};
    }
  }
  const Status& held() const { return fault_; }

 private:
  const std::string path_;
  const Descriptor file_;
  Status fault_;
};

}  // namespace

Status change_api_keys(const std::filesystem::path& path, bool new_file,
                       const std::function<Status(std::vector<ApiKey>&)>& change) {
  const KeyFileLock lock(behind_links(path).string());
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
