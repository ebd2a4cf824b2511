// The tables of documents. The lock is held for one small statement at a time: long texts come and go in
// pieces, and the row with a document's facts says which text counts.
#include "cache/document_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "cache/database_kind.h"
#include "cache/document_schema.h"
#include "cache/sqlite_statement.h"

namespace fulmar {
namespace {

// Between two writings of the time into the file.
constexpr int64_t kClockSavedEvery = 60;
constexpr size_t kPieceBytes = size_t{512} << 10;

#define FULMAR_FACTS "id, owner, label, created, mark, lasting, bytes, text"

// A document's row: everything but the text, and where the text is.
struct DocumentRow {
  Document document;
  int64_t bytes = 0;
  int64_t text = 0;
};

DocumentRow row_of(const Statement& row) {
  return {{.id = row.column_text(0),
           .owner = row.column_text(1),
           .created = row.column_integer(3),
           .text = {},
           .label = row.column_text(2),
           .lasting = row.column_integer(5) != 0,
           .mark = row.column_integer(4)},
          row.column_integer(6),
          row.column_integer(7)};
}

Result<std::vector<DocumentRow>> rows_of(Statement& query) {
  std::vector<DocumentRow> rows;
  FULMAR_ASSIGN(bool more, query.next());
  while (more) {
    rows.push_back(row_of(query));
    FULMAR_ASSIGN(more, query.next());
  }
  return rows;
}

std::vector<Document> documents_of(std::vector<DocumentRow> rows) {
  std::vector<Document> documents;
  for (DocumentRow& row : rows) documents.push_back(std::move(row.document));
  return documents;
}

class SqliteDocuments final : public DocumentStore {
 public:
  SqliteDocuments(Database database, const DocumentOptions& options)
      : database_(std::move(database)),
        durable_(options.durable),
        clock_(options.clocks, credit_for(options.lifetime)) {}
  ~SqliteDocuments() override { (void)clock_.save(database_); }

  // Prepares the file, which stays locked, so that a second process fails at its first statement.
  Status prepare(const std::filesystem::path& path) {
    FULMAR_TRY(execute(database_, "PRAGMA locking_mode = EXCLUSIVE"));
    FULMAR_TRY(check_kind(database_, path, DatabaseKind::responses));
    FULMAR_TRY(write_ahead(database_, durable_));
    FULMAR_TRY(prepare_documents(database_, path));
    // Removes pieces of texts that a process was writing or removing when it ended.
    FULMAR_TRY(execute(database_,
                       "DELETE FROM fulmar_pieces WHERE text NOT IN (SELECT text FROM fulmar_documents)"));
    Statement sums(database_,
                   "SELECT owner, lasting, sum(bytes) FROM fulmar_documents GROUP BY owner, lasting");
    FULMAR_ASSIGN(bool more, sums.next());
    while (more) {
      count(sums.column_text(0), sums.column_integer(1) != 0, sums.column_integer(2));
      FULMAR_ASSIGN(more, sums.next());
    }
    Statement newest(database_, "SELECT max(text), max(created) FROM fulmar_documents");
    FULMAR_TRY(newest.next());
    last_text_ = newest.column_integer(0);
    return clock_.load(database_, newest.column_real(1));
  }

  Status standing() override { return check_named(database_); }

  int64_t lost() override {
    if (standing().ok()) return 0;
    std::lock_guard lock(mutex_);
    Statement query(database_, "SELECT count(*) FROM fulmar_documents");
    const auto counted = query.next();
    return counted.ok() && *counted ? query.column_integer(0) : 0;
  }

  int64_t now() override {
    std::lock_guard lock(mutex_);
    const auto now = static_cast<int64_t>(clock_.now());
    if (now >= saved_at_ + kClockSavedEvery && clock_.save(database_).ok()) saved_at_ = now;
    return now;
  }

  Status put(const Document& document) override {
    const auto bytes = static_cast<int64_t>(document.text.size());
    const int64_t text = new_text();
    Status stored = write_pieces(text, document.text);
    std::optional<DocumentRow> before;
    if (stored.ok()) stored = replace_row({document, bytes, text}, before);
    if (!stored.ok()) remove_pieces(text, bytes);
    if (before) remove_pieces(before->text, before->bytes);
    return stored;
  }

  Result<std::optional<Document>> find(const std::string& id) override {
    FULMAR_ASSIGN(std::optional<DocumentRow> row, row_with(id));
    while (row) {
      FULMAR_ASSIGN(const bool whole, read_pieces(row->text, row->bytes, row->document.text));
      if (whole) return std::optional<Document>(std::move(row->document));
      const int64_t gone = row->text;
      FULMAR_ASSIGN(row, row_with(id));  // replaced or taken meanwhile
      if (row && row->text == gone) {
        return Error{ErrorKind::corrupt, "the text of document '" + id + "' is not whole"};
      }
    }
    return std::optional<Document>();
  }

  Result<std::optional<Document>> take(const std::string& id) override {
    FULMAR_ASSIGN(std::optional<DocumentRow> row, remove_row(id));
    if (!row) return std::optional<Document>();
    remove_pieces(row->text, row->bytes);
    return std::optional<Document>(std::move(row->document));
  }

  Status set_mark(const std::string& id, int64_t mark) override {
    std::lock_guard lock(mutex_);
    FULMAR_TRY(check_named(database_));
    Statement update(database_, "UPDATE fulmar_documents SET mark = ? WHERE id = ?");
    return update.integer(1, mark).text(2, id).run();
  }

  Result<std::vector<Document>> lasting() override {
    std::lock_guard lock(mutex_);
    Statement query(
        database_, "SELECT " FULMAR_FACTS " FROM fulmar_documents WHERE lasting = 1 ORDER BY created, rowid");
    FULMAR_ASSIGN(std::vector<DocumentRow> rows, rows_of(query));
    return documents_of(std::move(rows));
  }

  Result<std::vector<Document>> take_older(int64_t since) override {
    return take_rows([&]() -> Result<std::vector<DocumentRow>> {
      Statement query(database_, "SELECT " FULMAR_FACTS
                                 " FROM fulmar_documents WHERE lasting = 0 AND created < ?"
                                 " ORDER BY created, rowid");
      return rows_of(query.integer(1, since));
    });
  }

  Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) override {
    return take_rows([&]() -> Result<std::vector<DocumentRow>> {
      Statement query(database_, "SELECT " FULMAR_FACTS
                                 " FROM fulmar_documents WHERE owner = ? AND lasting = 0"
                                 " ORDER BY created, rowid");
      query.text(1, owner);
      std::vector<DocumentRow> rows;
      for (int64_t gone = 0; gone < bytes; gone += rows.back().bytes) {
        FULMAR_ASSIGN(const bool more, query.next());
        if (!more) break;
        rows.push_back(row_of(query));
      }
      return rows;
    });
  }

  DocumentBytes bytes_of(const std::string& owner) override {
    std::lock_guard lock(mutex_);
    const auto found = by_owner_.find(owner);
    return found == by_owner_.end() ? DocumentBytes{} : found->second;
  }
  int64_t bytes() override {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  int64_t new_text() {
    std::lock_guard lock(mutex_);
    return ++last_text_;
  }

  // ---- pieces; a text that no row names is nobody's

  static int64_t pieces_of(int64_t bytes) {
    constexpr auto kPiece = static_cast<int64_t>(kPieceBytes);
    return std::max<int64_t>(1, (bytes + kPiece - 1) / kPiece);
  }

  Status write_pieces(int64_t text, std::string_view bytes) {
    for (int64_t number = 0; number < pieces_of(static_cast<int64_t>(bytes.size())); ++number) {
      const std::string_view piece = bytes.substr(static_cast<size_t>(number) * kPieceBytes, kPieceBytes);
      std::lock_guard lock(mutex_);
      Statement insert(database_, "INSERT INTO fulmar_pieces VALUES(?, ?, ?)");
      FULMAR_TRY(insert.integer(1, text).integer(2, number).blob(3, std::as_bytes(std::span(piece))).run());
    }
    return {};
  }

  // Reads the pieces of a text. Returns whether all of it is there.
  Result<bool> read_pieces(int64_t text, int64_t bytes, std::string& into) {
    into.clear();
    into.reserve(static_cast<size_t>(bytes));
    for (int64_t number = 0; static_cast<int64_t>(into.size()) < bytes; ++number) {
      std::lock_guard lock(mutex_);
      Statement query(database_, "SELECT bytes FROM fulmar_pieces WHERE text = ? AND number = ?");
      FULMAR_ASSIGN(const bool found, query.integer(1, text).integer(2, number).next());
      if (!found) return false;
      const std::span<const std::byte> piece = query.column_blob(0);
      into.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    return static_cast<int64_t>(into.size()) == bytes;
  }

  // Removes a text's pieces. On failure the next process that opens the file removes the rest.
  void remove_pieces(int64_t text, int64_t bytes) {
    for (int64_t number = 0; number < pieces_of(bytes); ++number) {
      std::lock_guard lock(mutex_);
      Statement remove(database_, "DELETE FROM fulmar_pieces WHERE text = ? AND number = ?");
      if (!remove.integer(1, text).integer(2, number).run().ok()) return;
    }
  }

  // ---- rows

  Result<std::optional<DocumentRow>> row_with(const std::string& id) {
    std::lock_guard lock(mutex_);
    return row_locked(id);
  }
  Result<std::optional<DocumentRow>> row_locked(const std::string& id) {
    Statement query(database_, "SELECT " FULMAR_FACTS " FROM fulmar_documents WHERE id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, id).next());
    return found ? std::optional<DocumentRow>(row_of(query)) : std::nullopt;
  }

  Status replace_row(const DocumentRow& row, std::optional<DocumentRow>& before) {
    std::lock_guard lock(mutex_);
    FULMAR_TRY(check_named(database_));
    FULMAR_ASSIGN(std::optional<DocumentRow> found, row_locked(row.document.id));
    Statement insert(database_, "INSERT OR REPLACE INTO fulmar_documents(" FULMAR_FACTS
                                ") VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    const Document& document = row.document;
    FULMAR_TRY(insert.text(1, document.id)
                   .text(2, document.owner)
                   .text(3, document.label)
                   .integer(4, document.created)
                   .integer(5, document.mark)
                   .integer(6, document.lasting ? 1 : 0)
                   .integer(7, row.bytes)
                   .integer(8, row.text)
                   .run());
    if (found) count(found->document.owner, found->document.lasting, -found->bytes);
    count(document.owner, document.lasting, row.bytes);
    before = std::move(found);
    return {};
  }

  Result<std::optional<DocumentRow>> remove_row(const std::string& id) {
    std::lock_guard lock(mutex_);
    return remove_locked(id);
  }
  Result<std::optional<DocumentRow>> remove_locked(const std::string& id) {
    FULMAR_ASSIGN(std::optional<DocumentRow> row, row_locked(id));
    if (!row) return row;
    FULMAR_TRY(check_named(database_));
    Statement remove(database_, "DELETE FROM fulmar_documents WHERE id = ?");
    FULMAR_TRY(remove.text(1, id).run());
    count(row->document.owner, row->document.lasting, -row->bytes);
    return row;
  }

  template <class Choose>
  Result<std::vector<Document>> take_rows(const Choose& choose) {
    std::vector<DocumentRow> gone;
    {
      std::lock_guard lock(mutex_);
      FULMAR_ASSIGN(const std::vector<DocumentRow> chosen, choose());
      for (const DocumentRow& row : chosen) {
        FULMAR_ASSIGN(std::optional<DocumentRow> removed, remove_locked(row.document.id));
        if (removed) gone.push_back(std::move(*removed));
      }
    }
    for (const DocumentRow& row : gone) remove_pieces(row.text, row.bytes);
    return documents_of(std::move(gone));
  }

  void count(const std::string& owner, bool lasting, int64_t bytes) {
    DocumentBytes& own = by_owner_[owner];
    (lasting ? own.lasting : own.passing) += bytes;
    bytes_ += bytes;
    if (own.sum() == 0) by_owner_.erase(owner);
  }

  std::mutex mutex_;
  Database database_;
  const bool durable_;
  DatabaseClock clock_;
  std::map<std::string, DocumentBytes> by_owner_;
  int64_t bytes_ = 0;
  int64_t last_text_ = 0;
  int64_t saved_at_ = 0;
};

#undef FULMAR_FACTS

}  // namespace

Result<std::unique_ptr<DocumentStore>> open_document_store(const std::filesystem::path& path,
                                                           const DocumentOptions& options) {
  FULMAR_ASSIGN(Database database, open_database(path));
  auto store = std::make_unique<SqliteDocuments>(std::move(database), options);
  FULMAR_TRY(store->prepare(path));
  return std::unique_ptr<DocumentStore>(std::move(store));
}

}  // namespace fulmar
