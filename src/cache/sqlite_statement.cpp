#include "cache/sqlite_statement.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

namespace fulmar {

namespace {

std::string name_of(sqlite3* database) {
  const char* name = sqlite3_db_filename(database, "main");
  return name == nullptr || *name == '\0' ? "in memory" : fmt::format("'{}'", name);
}

ErrorKind kind_of(int status) {
  switch (status) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorKind::corrupt;
    case SQLITE_FULL:
      return ErrorKind::resource;
    default:
      return ErrorKind::io;
  }
}

}  // namespace

void make_private(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
}

Result<Database> open_database(const std::filesystem::path& path) {
  // A path from the root is no name that SQLite reads in a way of its own (":memory:", "file:...").
  const std::string name = path.empty() ? ":memory:" : std::filesystem::absolute(path).string();
  if (!path.empty()) make_private(name);
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int status = sqlite3_open_v2(name.c_str(), &opened, flags, nullptr);
  Database database(opened);
  if (status == SQLITE_OK) return database;
  return Error{ErrorKind::io, fmt::format("database '{}': {}", name, sqlite3_errmsg(opened))};
}

Status execute(const Database& database, const char* sql) {
  const int status = sqlite3_exec(database.get(), sql, nullptr, nullptr, nullptr);
  if (status == SQLITE_OK) return {};
  return database_error(database.get(), status);
}

Status write_ahead(const Database& database, bool durable) {
  FULMAR_TRY(execute(database, "PRAGMA journal_mode = WAL"));
  return execute(database, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

Status check_named(const Database& database) {
  int moved = 0;  // stays so for a database in memory
  sqlite3_file_control(database.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved == 0) return {};
  return Error{
      ErrorKind::unavailable,
      fmt::format("database {} was removed, moved or replaced while it was open; put it back, or end "
                  "this process and begin with the file that is there",
                  name_of(database.get()))};
}

Error database_error(sqlite3* database, int status) {
  return Error{kind_of(status), fmt::format("database {}: {}", name_of(database), sqlite3_errmsg(database))};
}

}  // namespace fulmar
