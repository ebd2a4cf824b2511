#include "cache/document_schema.h"

#include <fmt/format.h>

#include <string>

#include "base/log.h"
#include "cache/schema_upgrade.h"

namespace fulmar {
namespace {

// Texts are separate, so that queries for other columns read no text.
const std::string kTables =
    "CREATE TABLE IF NOT EXISTS fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "CREATE TABLE fulmar_documents("
    "  id TEXT PRIMARY KEY, owner TEXT NOT NULL, label TEXT NOT NULL, created INTEGER NOT NULL,"
    "  mark INTEGER NOT NULL, lasting INTEGER NOT NULL, bytes INTEGER NOT NULL, text INTEGER NOT NULL);"
    "CREATE INDEX fulmar_documents_by_age ON fulmar_documents(lasting, created);"
    "CREATE INDEX fulmar_documents_by_owner ON fulmar_documents(owner, lasting, created);"
    "CREATE TABLE fulmar_pieces(text INTEGER NOT NULL, number INTEGER NOT NULL, bytes BLOB NOT NULL);"
    "CREATE UNIQUE INDEX fulmar_pieces_in_order ON fulmar_pieces(text, number);"
    "INSERT OR IGNORE INTO fulmar_meta VALUES('schema', 2);";

// Jobs had ids of their own, and no mark that can be told from stops. Whose a document was nobody has noted.
const std::string kFromFirst =
    "DROP INDEX IF EXISTS fulmar_documents_created;"
    "ALTER TABLE fulmar_documents RENAME TO fulmar_documents_1;" +
    kTables +
    "INSERT INTO fulmar_documents SELECT id, '', owner, created, 0, id LIKE 'job:%', "
    "  length(CAST(text AS BLOB)), rowid FROM fulmar_documents_1;"
    "INSERT INTO fulmar_pieces SELECT rowid, 0, CAST(text AS BLOB) FROM fulmar_documents_1;"
    "DROP TABLE fulmar_documents_1;"
    "UPDATE fulmar_meta SET value = 2 WHERE key = 'schema';";

}  // namespace

Status prepare_documents(const Database& database, const std::filesystem::path& path) {
  FULMAR_ASSIGN(const bool known, has_table(database, "fulmar_documents"));
  if (!known) return all_or_nothing(database, kTables);
  FULMAR_ASSIGN(const int64_t schema, schema_of(database));
  if (schema == kDocumentSchema) return {};
  if (schema != 1) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("database of responses '{}': schema {} found, 1 to {} wanted{}", path.string(), schema,
                    kDocumentSchema, schema > kDocumentSchema ? ": a newer version has made it" : "")};
  }
  FULMAR_ASSIGN(const std::filesystem::path copy, bring_up(database, path, schema, kFromFirst));
  spdlog::info(
      "database of responses '{}' brought up from schema {} to {}; as it was, until you delete it: '{}'",
      path.string(), schema, kDocumentSchema, copy.string());
  return {};
}

}  // namespace fulmar
