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

// Each from the schema before it. The last one reads each state once and in the order in which they lie: a
// file may have hundreds of gigabytes of them.
constexpr const char* kUpgrades[] = {
    "ALTER TABLE fulmar_sessions ADD COLUMN owner TEXT GENERATED ALWAYS AS "
    "  (substr(id, 1, max(instr(id, char(31)) - 1, 0))) VIRTUAL;"
    "CREATE INDEX fulmar_sessions_by_age ON fulmar_sessions(updated);",

    "DROP INDEX fulmar_sessions_by_age;"
    "ALTER TABLE fulmar_sessions RENAME TO fulmar_sessions_2;"
    "CREATE TABLE fulmar_sessions("
    "  fingerprint TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, tokens INTEGER NOT NULL,"
    "  turn INTEGER NOT NULL, updated REAL NOT NULL, state INTEGER NOT NULL,"
    "  PRIMARY KEY(fingerprint, id)) WITHOUT ROWID;"
    "INSERT INTO fulmar_sessions SELECT fingerprint, id, owner, tokens, turn, updated,"
    "  row_number() OVER (ORDER BY fingerprint, id) FROM fulmar_sessions_2;"
    "CREATE INDEX fulmar_sessions_by_age ON fulmar_sessions(updated);"
    "CREATE INDEX fulmar_sessions_by_owner ON fulmar_sessions(owner, updated);"
    "CREATE TABLE fulmar_states(number INTEGER PRIMARY KEY, state BLOB NOT NULL);"
    "INSERT INTO fulmar_states SELECT session.state, old.state FROM fulmar_sessions_2 AS old"
    "  CROSS JOIN fulmar_sessions AS session USING(fingerprint, id);"
    "CREATE TRIGGER fulmar_states_go AFTER DELETE ON fulmar_sessions BEGIN"
    "  DELETE FROM fulmar_states WHERE number = OLD.state; END;"
    "DROP TABLE fulmar_sessions_2;",
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

// Reads every row, and of the states where they begin: damage within one is found when its session is taken
// up, and concerns it alone.
Status walk(const Database& database) {
  FULMAR_TRY(Statement(database, "SELECT sum(tokens + turn + updated + state) FROM fulmar_sessions").run());
  return Statement(database, "SELECT sum(length(state)) FROM fulmar_states").run();
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
  if (schema != kSessionSchema) FULMAR_TRY(upgrade(database, path, schema));
  return walk(database);
}

}  // namespace fulmar
