// Maps a file as read-only memory. Nothing is read before it is touched.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "files/bytes.h"

namespace fulmar {

// If another program shortens the file while it is mapped, or the disk cannot read it, access raises SIGBUS.
// The process then ends with kFileLostExit and a line that names the file, unless the file was opened under a
// FileWatch that still watches. Bytes that are overwritten are read as they then are: replace model files by
// renaming, never by writing into them.
class MappedFile {
 public:
  // Maps a file. Refuses what is not a regular file, and empty files.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  ByteSpan bytes() const { return bytes_; }

  // Releases the memory of pages that are wholly inside `part`; they are read again when touched again.
  void release(ByteSpan part) const;

 private:
  struct Mapping;  // of the mappings that the handler of SIGBUS knows
  friend class FileWatch;

  MappedFile(ByteSpan bytes, Mapping* place) : bytes_(bytes), place_(place) {}
  static Mapping* take_place(ByteSpan bytes, const std::filesystem::path& path);

  ByteSpan bytes_;
  Mapping* const place_;  // null: there was none left
};

// While it lives, files opened on this thread may lose pages without ending the process: lost pages
// read as zeros, and settle() reports it. For loading: what was loaded from such a file must be
// discarded.
class FileWatch {
 public:
  FileWatch();
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Ends the watch over what was opened: a later loss ends the process. Error io: names a file that was lost
  // before.
  Status settle();

 private:
  friend class MappedFile;
  FileWatch* const outer_;
  std::string lost_;  // a file that is closed again; under the lock of all mappings
};

// Returns what `load` returns, a Result or a Status, or an error that names a file lost meanwhile.
template <class Load>
auto watched(Load&& load) -> decltype(load()) {
  FileWatch watch;
  auto loaded = load();
  if (const Status whole = watch.settle(); !whole.ok()) return whole.error();
  return loaded;
}

}  // namespace fulmar
