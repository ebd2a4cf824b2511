#include "cache/sqlite_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unix_time.h"

namespace fulmar {

namespace {

constexpr int kSchemaVersion = 1;
constexpr int kBusyMilliseconds = 2000;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS fulmar_sessions("
    "  fingerprint TEXT NOT NULL, id TEXT NOT NULL, tokens INTEGER NOT NULL, turn INTEGER NOT NULL,"
    "  updated REAL NOT NULL, state BLOB NOT NULL, PRIMARY KEY(fingerprint, id)) WITHOUT ROWID;";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

// Held for as long as a database is open: who commits there need not compare turns with anybody else's. A
// file of its own beside the database, since closing the database's own would end the locks that SQLite has
// on it.
class FileLock {
 public:
  static Result<FileLock> take(const std::filesystem::path& database) {
    const std::string path = database.string() + ".lock";
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.descriptor_ < 0) {
      return Error{ErrorKind::io, fmt::format("'{}': {}", path, std::strerror(errno))};
    }
    if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      return Error{ErrorKind::unavailable,
                   fmt::format("session database '{}' is in use by another server (it holds '{}')",
                               database.string(), path)};
    }
    return lock;
  }
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

// Conversations are nobody else's business: a fresh file is the owner's alone, and so are those that SQLite
// puts beside it, which take after it. Failures are left for SQLite to report.
void make_private(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
}

// One prepared statement; the first failure is kept and reported by `run`.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    sqlite3_stmt* prepared = nullptr;
    status_ = sqlite3_prepare_v2(database, sql, -1, &prepared, nullptr);
    statement_.reset(prepared);
  }
  Statement& text(int index, const std::string& value) {
    return note(sqlite3_bind_text(statement_.get(), index, value.data(), static_cast<int>(value.size()),
                                  SQLITE_TRANSIENT));
  }
  Statement& integer(int index, int64_t value) {
    return note(sqlite3_bind_int64(statement_.get(), index, value));
  }
  Statement& real(int index, double value) {
    return note(sqlite3_bind_double(statement_.get(), index, value));
  }
  // `value` must live until the statement has run.
  Statement& blob(int index, const std::vector<std::byte>& value) {
    return note(sqlite3_bind_blob64(statement_.get(), index, value.data(), value.size(), SQLITE_STATIC));
  }
  // True while there is a row to read.
  Result<bool> next() {
    if (status_ == SQLITE_OK) {
      const int stepped = sqlite3_step(statement_.get());
      if (stepped == SQLITE_ROW) return true;
      if (stepped == SQLITE_DONE) return false;
      status_ = stepped;
    }
    return Error{status_ == SQLITE_CORRUPT || status_ == SQLITE_NOTADB ? ErrorKind::corrupt : ErrorKind::io,
                 fmt::format("session database: {}", sqlite3_errmsg(database_))};
  }
  Status run() {
    FULMAR_ASSIGN(bool more, next());
    while (more) {
      FULMAR_ASSIGN(more, next());
    }
    return {};
  }
  std::string column_text(int index) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), index));
    return text == nullptr
               ? std::string()
               : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), index)));
  }
  int64_t column_integer(int index) const { return sqlite3_column_int64(statement_.get(), index); }
  double column_real(int index) const { return sqlite3_column_double(statement_.get(), index); }
  std::span<const std::byte> column_blob(int index) const {
    const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), index));
    return {data, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), index))};
  }

 private:
  Statement& note(int status) {
    if (status_ == SQLITE_OK) status_ = status;
    return *this;
  }

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement_;
  int status_ = SQLITE_OK;
};

class SqliteStore final : public SessionStore {
 public:
  SqliteStore(FileLock lock, Database database) : lock_(std::move(lock)), database_(std::move(database)) {}

  Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) override {
    Statement query(database_.get(), "SELECT state FROM fulmar_sessions WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, fingerprint).text(2, id).next());
    if (!found) return std::optional<StateBlob>();
    FULMAR_ASSIGN(StateBlob blob, decode_blob(query.column_blob(0)));
    if (blob.fingerprint != fingerprint) {
      return Error{ErrorKind::corrupt, fmt::format("session '{}': its state belongs to another model", id)};
    }
    return std::optional<StateBlob>(std::move(blob));
  }

  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    Statement query(database_.get(), "SELECT turn FROM fulmar_sessions WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, fingerprint).text(2, id).next());
    return found ? query.column_integer(0) : int64_t{0};
  }

  Result<std::vector<std::string>> store(const std::vector<SessionWrite>& writes) override {
    std::vector<std::string> refused;
    if (writes.empty()) return refused;
    FULMAR_TRY(execute("BEGIN IMMEDIATE"));
    for (const SessionWrite& write : writes) {
      const Status stored = store_one(write);
      if (!stored.ok()) {
        (void)execute("ROLLBACK");
        return stored.error();
      }
      if (sqlite3_changes(database_.get()) == 0) refused.push_back(write.id);
    }
    const Status committed = execute("COMMIT");
    if (!committed.ok()) {
      (void)execute("ROLLBACK");
      return committed.error();
    }
    return refused;
  }

  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    // A range instead of LIKE: ids may contain its wildcards. ';' is the character after ':'.
    Statement remove(database_.get(),
                     "DELETE FROM fulmar_sessions WHERE fingerprint = ?1 AND "
                     "(id = ?2 OR (?3 AND id >= ?2 || ':' AND id < ?2 || ';'))");
    FULMAR_TRY(remove.text(1, fingerprint).text(2, id).integer(3, and_branches ? 1 : 0).run());
    return static_cast<int64_t>(sqlite3_changes(database_.get()));
  }

  Result<std::vector<StoredSession>> list(const std::string& fingerprint) override {
    Statement query(database_.get(),
                    "SELECT id, updated, tokens, turn FROM fulmar_sessions WHERE fingerprint = ? "
                    "ORDER BY updated DESC, id");
    query.text(1, fingerprint);
    std::vector<StoredSession> sessions;
    FULMAR_ASSIGN(bool more, query.next());
    while (more) {
      sessions.push_back(
          {query.column_text(0), query.column_real(1), query.column_integer(2), query.column_integer(3)});
      FULMAR_ASSIGN(more, query.next());
    }
    return sessions;
  }

  Status prepare() {
    sqlite3_busy_timeout(database_.get(), kBusyMilliseconds);
    FULMAR_TRY(execute("PRAGMA journal_mode = WAL"));
    FULMAR_TRY(execute("PRAGMA synchronous = NORMAL"));
    FULMAR_TRY(execute(kSchema));
    FULMAR_TRY(execute("INSERT OR IGNORE INTO fulmar_meta VALUES('schema', 1)"));
    Statement version(database_.get(), "SELECT value FROM fulmar_meta WHERE key = 'schema'");
    FULMAR_ASSIGN(const bool found, version.next());
    const int64_t schema = found ? version.column_integer(0) : 0;
    if (schema != kSchemaVersion) {
      return Error{ErrorKind::unsupported,
                   fmt::format("session database: schema {} found, {} wanted", schema, kSchemaVersion)};
    }
    return {};
  }

 private:
  Status execute(const char* sql) {
    if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return Error{ErrorKind::io, fmt::format("session database: {}", sqlite3_errmsg(database_.get()))};
  }

  Status store_one(const SessionWrite& write) {
    const std::vector<std::byte> bytes = encode_blob(*write.blob);
    Statement insert(
        database_.get(),
        "INSERT INTO fulmar_sessions VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(fingerprint, id) DO UPDATE SET "
        "tokens = excluded.tokens, turn = excluded.turn, updated = excluded.updated, "
        "state = excluded.state WHERE excluded.turn > turn");
    return insert.text(1, write.blob->fingerprint)
        .text(2, write.id)
        .integer(3, write.blob->tokens)
        .integer(4, write.blob->turn)
        .real(5, unix_time())
        .blob(6, bytes)
        .run();
  }

  const FileLock lock_;  // given back last
  Database database_;
};

}  // namespace

Result<std::unique_ptr<SessionStore>> open_sqlite_store(const std::filesystem::path& path) {
  FULMAR_ASSIGN(FileLock lock, FileLock::take(path));
  make_private(path);
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int status = sqlite3_open_v2(path.c_str(), &opened, flags, nullptr);
  Database database(opened);
  if (status != SQLITE_OK) {
    return Error{ErrorKind::io,
                 fmt::format("session database '{}': {}", path.string(), sqlite3_errmsg(opened))};
  }
  auto store = std::make_unique<SqliteStore>(std::move(lock), std::move(database));
  if (const Status prepared = store->prepare(); !prepared.ok()) {
    return Error{prepared.error().kind, fmt::format("'{}': {}", path.string(), prepared.error().text)};
  }
  return std::unique_ptr<SessionStore>(std::move(store));
}

}  // namespace fulmar
