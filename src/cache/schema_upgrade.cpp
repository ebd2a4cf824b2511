#include "cache/schema_upgrade.h"

#include <fmt/format.h>

#include <system_error>

namespace fulmar {

namespace fs = std::filesystem;

namespace {

Result<fs::path> copy_beside(const Database& database, const fs::path& path, int64_t from) {
  const fs::path copy = fmt::format("{}.schema-{}", path.string(), from);
  const fs::path unfinished = copy.string() + ".part";
  std::error_code error;
  fs::remove(unfinished, error);
  make_private(unfinished.string());
  Statement copying(database, "VACUUM INTO ?");
  Status copied = copying.text(1, unfinished.string()).run();
  if (copied.ok()) fs::rename(unfinished, copy, error);
  if (copied.ok() && !error) return copy;
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  return Error{copied.ok() ? ErrorKind::io : copied.error().kind,
               fmt::format("no copy of it can be made at '{}': {}", copy.string(),
                           error ? error.message() : copied.error().text)};
}

// Runs the statements as one transaction that writes what is new into the file alone: written ahead it would
// take its room once more.
Status written_once(const Database& database, const std::string& sql) {
  FULMAR_TRY(execute(database, "PRAGMA journal_mode = DELETE"));
  const Status done = all_or_nothing(database, sql);
  FULMAR_TRY(execute(database, "PRAGMA journal_mode = WAL"));
  return done;
}

}  // namespace

Result<bool> has_table(const Database& database, const std::string& name) {
  Statement query(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
  return query.text(1, name).next();
}

Result<int64_t> schema_of(const Database& database) {
  Statement query(database, "SELECT value FROM fulmar_meta WHERE key = 'schema'");
  FULMAR_ASSIGN(const bool found, query.next());
  return found ? query.column_integer(0) : int64_t{0};
}

Status all_or_nothing(const Database& database, const std::string& sql) {
  Status done = execute(database, ("BEGIN IMMEDIATE;" + sql + "COMMIT;").c_str());
  if (!done.ok()) (void)execute(database, "ROLLBACK");
  return done;
}

Result<fs::path> bring_up(const Database& database, const fs::path& path, int64_t from,
                          const std::string& sql) {
  Result<fs::path> copy = copy_beside(database, path, from);
  const Status done = copy.ok() ? written_once(database, sql) : copy.error();
  if (done.ok()) return copy;
  return Error{done.error().kind == ErrorKind::corrupt ? ErrorKind::corrupt : ErrorKind::unsupported,
               fmt::format("'{}' is of an older version, schema {}, and cannot be brought up: {}",
                           path.string(), from, done.error().text)};
}

}  // namespace fulmar
