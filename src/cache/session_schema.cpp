#include "cache/session_schema.h"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "base/log.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirstTables =
    "CREATE TABLE IF NOT EXISTS fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS fulmar_sessions("
    "  fingerprint TEXT NOT NULL, id TEXT NOT NULL, tokens INTEGER NOT NULL, turn INTEGER NOT NULL,"
    "  updated REAL NOT NULL, state BLOB NOT NULL, PRIMARY KEY(fingerprint, id)) WITHOUT ROWID;"
    "INSERT OR IGNORE INTO fulmar_meta VALUES('schema', 1);";

// Each from the schema before it. No state is written anew: a file may have hundreds of gigabytes of them.
constexpr const char* kUpgrades[] = {
    "ALTER TABLE fulmar_sessions ADD COLUMN owner TEXT GENERATED ALWAYS AS "
    "  (substr(id, 1, max(instr(id, char(31)) - 1, 0))) VIRTUAL;"
    "CREATE INDEX fulmar_sessions_by_age ON fulmar_sessions(updated);",
};
static_assert(std::size(kUpgrades) == kSessionSchema - 1);

Result<bool> has_tables(const Database& database) {
  Statement query(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'fulmar_sessions'");
  return query.next();
}

Result<int64_t> schema_of(const Database& database) {
  Statement query(database, "SELECT value FROM fulmar_meta WHERE key = 'schema'");
  FULMAR_ASSIGN(const bool found, query.next());
  return found ? query.column_integer(0) : int64_t{0};
}

// One transaction; what fails leaves everything as it was.
Status all_or_nothing(const Database& database, const std::string& sql) {
  Status done = execute(database, ("BEGIN IMMEDIATE;" + sql + "COMMIT;").c_str());
  if (!done.ok()) (void)execute(database, "ROLLBACK");
  return done;
}

// The name is given to a copy that is whole.
Status copy_beside(const Database& database, const fs::path& path, const fs::path& copy) {
  const fs::path unfinished = copy.string() + ".part";
  std::error_code error;
  fs::remove(unfinished, error);
  make_private(unfinished.string());
  Statement copying(database, "VACUUM INTO ?");
  Status copied = copying.text(1, unfinished.string()).run();
  if (copied.ok()) fs::rename(unfinished, copy, error);
  if (copied.ok() && !error) return {};
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  return Error{ErrorKind::io,
               fmt::format("'{}' is of an older version; no copy of it can be made at '{}': {}",
                           path.string(), copy.string(), error ? error.message() : copied.error().text)};
}

Status upgrade(const Database& database, const fs::path& path, int64_t from) {
  const fs::path copy = fmt::format("{}.schema-{}", path.string(), from);
  FULMAR_TRY(copy_beside(database, path, copy));
  std::string sql;
  for (int64_t schema = from; schema < kSessionSchema; ++schema) sql += kUpgrades[schema - 1];
  sql += fmt::format("UPDATE fulmar_meta SET value = {} WHERE key = 'schema';", kSessionSchema);
  FULMAR_TRY(all_or_nothing(database, sql));
  spdlog::info("session database '{}' brought up from schema {} to {}; as it was: '{}'", path.string(), from,
               kSessionSchema, copy.string());
  return {};
}

// Reads every row but for the states: damage there is found when a session is taken up, and concerns it
// alone.
Status walk(const Database& database) {
  return Statement(database, "SELECT sum(tokens + turn + updated + length(state)) FROM fulmar_sessions")
      .run();
}

}  // namespace

Status prepare_sessions(const Database& database, const fs::path& path) {
  FULMAR_ASSIGN(const bool known, has_tables(database));
  if (!known) {
    std::string sql = kFirstTables;
    for (const char* more : kUpgrades) sql += more;
    return all_or_nothing(
        database,
        sql + fmt::format("UPDATE fulmar_meta SET value = {} WHERE key = 'schema';", kSessionSchema));
  }
  FULMAR_ASSIGN(const int64_t schema, schema_of(database));
  if (schema < 1 || schema > kSessionSchema) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("session database '{}': schema {} found, 1 to {} wanted{}", path.string(), schema,
                    kSessionSchema, schema > kSessionSchema ? ": a newer version has made it" : "")};
  }
  FULMAR_TRY(walk(database));
  if (schema == kSessionSchema) return {};
  return upgrade(database, path, schema);
}

}  // namespace fulmar
