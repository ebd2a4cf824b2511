// The table of documents.
#include "cache/document_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cache/sqlite_statement.h"

namespace fulmar {
namespace {

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS fulmar_documents("
    "  id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS fulmar_documents_created ON fulmar_documents(created);"
    "CREATE TABLE IF NOT EXISTS fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "INSERT OR IGNORE INTO fulmar_meta VALUES('schema', 1);";
constexpr int64_t kSchemaNumber = 1;
// Between two writings of the time into the file.
constexpr int64_t kClockSavedEvery = 60;

class SqliteDocuments final : public DocumentStore {
 public:
  SqliteDocuments(Database database, const DocumentOptions& options)
      : database_(std::move(database)), clock_(options.clocks, credit_for(options.lifetime)) {}
  ~SqliteDocuments() override { (void)clock_.save(database_); }

  // The file stays locked, so that no second process gets past its first statement.
  Status prepare() {
    for (const char* sql : {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL",
                            "PRAGMA synchronous = NORMAL", kSchema}) {
      FULMAR_TRY(execute(database_, sql));
    }
    FULMAR_TRY(check_schema());
    Statement sums(database_, "SELECT total(length(CAST(text AS BLOB))), max(created) FROM fulmar_documents");
    FULMAR_TRY(sums.next());
    bytes_ = sums.column_integer(0);
    return clock_.load(database_, sums.column_real(1));
  }

  int64_t now() override {
    std::lock_guard lock(mutex_);
    const auto now = static_cast<int64_t>(clock_.now());
    if (now >= saved_at_ + kClockSavedEvery && clock_.save(database_).ok()) saved_at_ = now;
    return now;
  }

  Status put(const Document& document) override {
    std::lock_guard lock(mutex_);
    FULMAR_ASSIGN(const int64_t before, bytes_of(document.id));
    FULMAR_TRY(insert(document));
    bytes_ += static_cast<int64_t>(document.text.size()) - before;
    return {};
  }
  Result<std::optional<Document>> find(const std::string& id) override {
    std::lock_guard lock(mutex_);
    Statement query(database_, "SELECT id, owner, created, text FROM fulmar_documents WHERE id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, id).next());
    if (!found) return std::optional<Document>();
    Document document = facts_of(query);
    document.text = query.column_text(3);
    return std::optional<Document>(std::move(document));
  }

  Result<std::vector<Document>> of_owner(const std::string& owner) override {
    std::lock_guard lock(mutex_);
    Statement query(
        database_,
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
    FULMAR_ASSIGN(const int64_t bytes, bytes_of(id));
    Statement remove(database_, "DELETE FROM fulmar_documents WHERE id = ? RETURNING id, owner, created");
    FULMAR_ASSIGN(const bool found, remove.text(1, id).next());
    if (!found) return std::optional<Document>();
    Document document = facts_of(remove);
    FULMAR_TRY(remove.run());
    bytes_ -= bytes;
    return std::optional<Document>(std::move(document));
  }

  Result<std::vector<Document>> take_surplus(int64_t since, int64_t most_bytes) override {
    std::lock_guard lock(mutex_);
    Statement oldest(database_, "SELECT min(created) FROM fulmar_documents");
    FULMAR_TRY(oldest.next());
    if (bytes_ <= most_bytes && oldest.column_integer(0) >= since) return std::vector<Document>();
    // Running sums from the newest on: what begins beyond the bound goes.
    Statement remove(database_,
                     "DELETE FROM fulmar_documents WHERE id IN (SELECT id FROM (SELECT id, created, "
                     "sum(length(CAST(text AS BLOB))) OVER (ORDER BY created DESC, rowid DESC) AS bytes "
                     "FROM fulmar_documents) WHERE created < ?1 OR bytes > ?2) "
                     "RETURNING id, owner, created, length(CAST(text AS BLOB))");
    // An eighth of a large bound becomes free, so that the next that is put does not add up all texts again.
    const int64_t room = bytes_ > most_bytes ? most_bytes >> 23 << 20 : 0;
    remove.integer(1, since).integer(2, most_bytes - room);
    std::vector<Document> gone;
    FULMAR_ASSIGN(bool more, remove.next());
    while (more) {
      gone.push_back(facts_of(remove));
      bytes_ -= remove.column_integer(3);
      FULMAR_ASSIGN(more, remove.next());
    }
    std::sort(gone.begin(), gone.end(),
              [](const Document& a, const Document& b) { return a.created < b.created; });
    return gone;
  }

 private:
  Status check_schema() {
    Statement query(database_, "SELECT value FROM fulmar_meta WHERE key = 'schema'");
    FULMAR_TRY(query.next());
    const int64_t schema = query.column_integer(0);
    if (schema <= kSchemaNumber) return {};
    return Error{ErrorKind::unsupported,
                 fmt::format("database of responses: schema {} found, at most {} wanted: a newer version has "
                             "made it",
                             schema, kSchemaNumber)};
  }

  Status insert(const Document& document) {
    Statement insert(database_, "INSERT OR REPLACE INTO fulmar_documents VALUES(?, ?, ?, ?)");
    return insert.text(1, document.id)
        .text(2, document.owner)
        .integer(3, document.created)
        .text(4, document.text)
        .run();
  }

  // Of its text; 0 when there is none.
  Result<int64_t> bytes_of(const std::string& id) {
    Statement query(database_, "SELECT length(CAST(text AS BLOB)) FROM fulmar_documents WHERE id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, id).next());
    return found ? query.column_integer(0) : int64_t{0};
  }

  static Document facts_of(const Statement& row) {
    return {row.column_text(0), row.column_text(1), row.column_integer(2), {}};
  }

  std::mutex mutex_;
  Database database_;
  DatabaseClock clock_;
  int64_t bytes_ = 0;  // of all texts
  int64_t saved_at_ = 0;
};

}  // namespace

Result<std::unique_ptr<DocumentStore>> open_document_store(const std::filesystem::path& path,
                                                           const DocumentOptions& options) {
  FULMAR_ASSIGN(Database database, open_database(path));
  auto store = std::make_unique<SqliteDocuments>(std::move(database), options);
  FULMAR_TRY(store->prepare());
  return std::unique_ptr<DocumentStore>(std::move(store));
}

}  // namespace fulmar
