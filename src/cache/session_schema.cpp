#include "cache/session_schema.h"

#include <fmt/format.h>

#include <string>

#include "base/log.h"
#include "cache/schema_upgrade.h"

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

Status upgrade(const Database& database, const fs::path& path, int64_t from) {
  std::string sql;
  for (int64_t schema = from; schema < kSessionSchema; ++schema) sql += kUpgrades[schema - 1];
  sql += fmt::format("UPDATE fulmar_meta SET value = {} WHERE key = 'schema';", kSessionSchema);
  FULMAR_ASSIGN(const fs::path copy, bring_up(database, path, from, sql));
  spdlog::info("session database '{}' brought up from schema {} to {}; as it was, until you delete it: '{}'",
               path.string(), from, kSessionSchema, copy.string());
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
  FULMAR_ASSIGN(const bool known, has_table(database, "fulmar_sessions"));
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
