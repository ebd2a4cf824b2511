// Locks a database file for one process.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace fulmar {

// Held until destruction. Two locks: one on the file itself, so that no second process gets in by another
// name of it (a link); and one on the file "<path>.lock", for programs that know only that one.
class FileLock {
 public:
  // Takes the locks; makes a missing file, readable by its owner alone. Unavailable: another process has it.
  //
  // Closing a file releases all of the process's POSIX locks on it, SQLite's too: take this before the
  // database is opened, and release it after it was closed.
  static Result<FileLock> take(const std::filesystem::path& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock(int file, int name) : file_(file), name_(name) {}

  int file_ = -1, name_ = -1;  // descriptors
};

}  // namespace fulmar
