// A file as read-only memory. Nothing is read before it is touched.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "files/bytes.h"

namespace fulmar {

// What another program shortens, or a disk cannot read, while it is mapped raises SIGBUS on access. Then the
// process ends with kFileLostExit and a line that names the file, unless it was opened under a FileWatch that
// still watches. Bytes that are written over are read as they then are: replace model files by renaming,
// never by writing into them.
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
  struct Mapping;  // of the mappings that the handler of SIGBUS knows
  friend class FileWatch;

  MappedFile(ByteSpan bytes, Mapping* place) : bytes_(bytes), place_(place) {}
  static Mapping* take_place(ByteSpan bytes, const std::filesystem::path& path);

  ByteSpan bytes_;
  Mapping* const place_;  // null: there was none left
};

// Files that are opened on this thread while it watches may lose pages without ending the process: these read
// as zeros from there on, and settle() says so. For loads: what was loaded from such a file is to be thrown
// away.
class FileWatch {
 public:
  FileWatch();
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Ends the watch over what was opened: a later loss ends the process. An io Error names the file that was
  // lost.
  Status settle();

 private:
  friend class MappedFile;
  FileWatch* const outer_;
  std::string lost_;  // a file that is closed again; under the lock of all mappings
};

// What `load` returns, a Result or a Status, or else which of its files was lost meanwhile.
template <class Load>
auto watched(Load&& load) -> decltype(load()) {
  FileWatch watch;
  auto loaded = load();
  if (const Status whole = watch.settle(); !whole.ok()) return whole.error();
  return loaded;
}

}  // namespace fulmar
