// A database file that one process has to itself.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace fulmar {

// Held until it goes. Two locks: one on the file itself, so that no other name of it, a link, lets a second
// process in; and one on the file "<path>.lock", by which programs go that know no other.
class FileLock {
 public:
  // Makes the file where there is none, readable by its owner alone. Unavailable when another process has it.
  //
  // Whoever closes a file loses all of the process's POSIX locks on it, SQLite's too: take this before the
  // database is opened, and let it go after it was closed.
  static Result<FileLock> take(const std::filesystem::path& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock(int file, int name) : file_(file), name_(name) {}

  int file_ = -1, name_ = -1;  // descriptors
};

}  // namespace fulmar
