// The table of documents.
#include "cache/document_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cache/sqlite_statement.h"

namespace fulmar {
namespace {

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS fulmar_documents("
    "  id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS fulmar_documents_created ON fulmar_documents(created);";

class SqliteDocuments final : public DocumentStore {
 public:
  explicit SqliteDocuments(Database database) : database_(std::move(database)) {}

  // The file stays locked, so that no second process gets past its first statement.
  Status prepare() {
    for (const char* sql : {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL",
                            "PRAGMA synchronous = NORMAL", kSchema}) {
      FULMAR_TRY(execute(sql));
    }
    return {};
  }

  Status put(const Document& document) override {
    std::lock_guard lock(mutex_);
    Statement insert(database_.get(), "INSERT OR REPLACE INTO fulmar_documents VALUES(?, ?, ?, ?)");
    return insert.text(1, document.id)
        .text(2, document.owner)
        .integer(3, document.created)
        .text(4, document.text)
        .run();
  }

  Result<std::optional<Document>> find(const std::string& id) override {
    std::lock_guard lock(mutex_);
    Statement query(database_.get(), "SELECT id, owner, created, text FROM fulmar_documents WHERE id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, id).next());
    if (!found) return std::optional<Document>();
    Document document = facts_of(query);
    document.text = query.column_text(3);
    return std::optional<Document>(std::move(document));
  }

  Result<std::vector<Document>> of_owner(const std::string& owner) override {
    std::lock_guard lock(mutex_);
    Statement query(
        database_.get(),
        "SELECT id, owner, created, text FROM fulmar_documents WHERE owner = ? ORDER BY created, id");
    query.text(1, owner);
    std::vector<Document> documents;
    FULMAR_ASSIGN(bool more, query.next());
    while (more) {
      documents.push_back(facts_of(query));
      documents.back().text = query.column_text(3);
      FULMAR_ASSIGN(more, query.next());
    }
    return documents;
  }

  Result<std::optional<Document>> take(const std::string& id) override {
    std::lock_guard lock(mutex_);
    Statement remove(database_.get(),
                     "DELETE FROM fulmar_documents WHERE id = ? RETURNING id, owner, created");
    FULMAR_ASSIGN(const bool found, remove.text(1, id).next());
    if (!found) return std::optional<Document>();
    Document document = facts_of(remove);
    FULMAR_TRY(remove.run());
    return std::optional<Document>(std::move(document));
  }

  Result<std::vector<Document>> take_surplus(int64_t since, int64_t most_bytes) override {
    std::lock_guard lock(mutex_);
    // Running sums from the newest on: what begins beyond the bound goes.
    Statement remove(database_.get(),
                     "DELETE FROM fulmar_documents WHERE id IN (SELECT id FROM (SELECT id, created, "
                     "sum(length(CAST(text AS BLOB))) OVER (ORDER BY created DESC, id) AS bytes "
                     "FROM fulmar_documents) WHERE created < ?1 OR bytes > ?2) RETURNING id, owner, created");
    remove.integer(1, since).integer(2, most_bytes);
    std::vector<Document> gone;
    FULMAR_ASSIGN(bool more, remove.next());
    while (more) {
      gone.push_back(facts_of(remove));
      FULMAR_ASSIGN(more, remove.next());
    }
    std::sort(gone.begin(), gone.end(),
              [](const Document& a, const Document& b) { return a.created < b.created; });
    return gone;
  }

 private:
  static Document facts_of(const Statement& row) {
    return {row.column_text(0), row.column_text(1), row.column_integer(2), {}};
  }

  Status execute(const char* sql) {
    if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return Error{ErrorKind::io, fmt::format("database: {}", sqlite3_errmsg(database_.get()))};
  }

  std::mutex mutex_;
  Database database_;
};

}  // namespace

Result<std::unique_ptr<DocumentStore>> open_document_store(const std::filesystem::path& path) {
  const std::string name = path.empty() ? ":memory:" : path.string();
  if (!path.empty()) {
    const int file =
        ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);  // SQLite's other files take after it
    if (file >= 0) ::close(file);
  }
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int status = sqlite3_open_v2(name.c_str(), &opened, flags, nullptr);
  Database database(opened);
  if (status != SQLITE_OK) {
    return Error{ErrorKind::io, fmt::format("'{}': {}", name, sqlite3_errmsg(opened))};
  }
  auto store = std::make_unique<SqliteDocuments>(std::move(database));
  if (const Status prepared = store->prepare(); !prepared.ok()) {
    return Error{prepared.error().kind, fmt::format("'{}': {}", name, prepared.error().text)};
  }
  return std::unique_ptr<DocumentStore>(std::move(store));
}

}  // namespace fulmar
