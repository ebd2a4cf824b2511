// A file as read-only memory. Nothing is read before it is touched.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"
#include "files/bytes.h"

namespace fulmar {

// A file that another program shortens while it is mapped raises SIGBUS on access: replace model files by
// renaming, never by writing into them.
class MappedFile {
 public:
  // Refuses what is not a regular file, and empty files.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  ByteSpan bytes() const { return bytes_; }

  // Lets the pages that lie wholly inside `part` leave memory; they are read again when touched again.
  void release(ByteSpan part) const;

 private:
  explicit MappedFile(ByteSpan bytes) : bytes_(bytes) {}

  ByteSpan bytes_;
};

}  // namespace fulmar
