#include "cache/sqlite_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unix_time.h"
#include "cache/sqlite_statement.h"

namespace fulmar {

namespace {

constexpr int kSchemaVersion = 1;
constexpr int kBusyMilliseconds = 2000;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS fulmar_sessions("
    "  fingerprint TEXT NOT NULL, id TEXT NOT NULL, tokens INTEGER NOT NULL, turn INTEGER NOT NULL,"
    "  updated REAL NOT NULL, state BLOB NOT NULL, PRIMARY KEY(fingerprint, id)) WITHOUT ROWID;";

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

class SqliteStore final : public SessionStore {
 public:
  SqliteStore(FileLock lock, Database database) : lock_(std::move(lock)), database_(std::move(database)) {}

  Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) override {
    Statement query(database_, "SELECT state FROM fulmar_sessions WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, fingerprint).text(2, id).next());
    if (!found) return std::optional<StateBlob>();
    FULMAR_ASSIGN(StateBlob blob, decode_blob(query.column_blob(0)));
    if (blob.fingerprint != fingerprint) {
      return Error{ErrorKind::corrupt, fmt::format("session '{}': its state belongs to another model", id)};
    }
    return std::optional<StateBlob>(std::move(blob));
  }

  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    Statement query(database_, "SELECT turn FROM fulmar_sessions WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, query.text(1, fingerprint).text(2, id).next());
    return found ? query.column_integer(0) : int64_t{0};
  }

  Result<std::vector<std::string>> store(const std::vector<SessionWrite>& writes) override {
    std::vector<std::string> refused;
    if (writes.empty()) return refused;
    FULMAR_TRY(execute(database_, "BEGIN IMMEDIATE"));
    for (const SessionWrite& write : writes) {
      const Status stored = store_one(write);
      if (!stored.ok()) {
        (void)execute(database_, "ROLLBACK");
        return stored.error();
      }
      if (sqlite3_changes(database_.get()) == 0) refused.push_back(write.id);
    }
    const Status committed = execute(database_, "COMMIT");
    if (!committed.ok()) {
      (void)execute(database_, "ROLLBACK");
      return committed.error();
    }
    return refused;
  }

  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    // A range instead of LIKE: ids may contain its wildcards. ';' is the character after ':'.
    Statement remove(database_,
                     "DELETE FROM fulmar_sessions WHERE fingerprint = ?1 AND "
                     "(id = ?2 OR (?3 AND id >= ?2 || ':' AND id < ?2 || ';'))");
    FULMAR_TRY(remove.text(1, fingerprint).text(2, id).integer(3, and_branches ? 1 : 0).run());
    return static_cast<int64_t>(sqlite3_changes(database_.get()));
  }

  Result<std::vector<StoredSession>> list(const std::string& fingerprint) override {
    Statement query(database_,
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

  Status prepare(const std::filesystem::path& path) {
    sqlite3_busy_timeout(database_.get(), kBusyMilliseconds);
    FULMAR_TRY(execute(database_, "PRAGMA journal_mode = WAL"));
    FULMAR_TRY(execute(database_, "PRAGMA synchronous = NORMAL"));
    FULMAR_TRY(execute(database_, kSchema));
    FULMAR_TRY(execute(database_, "INSERT OR IGNORE INTO fulmar_meta VALUES('schema', 1)"));
    Statement version(database_, "SELECT value FROM fulmar_meta WHERE key = 'schema'");
    FULMAR_ASSIGN(const bool found, version.next());
    const int64_t schema = found ? version.column_integer(0) : 0;
    if (schema != kSchemaVersion) {
      return Error{ErrorKind::unsupported, fmt::format("session database '{}': schema {} found, {} wanted",
                                                       path.string(), schema, kSchemaVersion)};
    }
    return {};
  }

 private:
  Status store_one(const SessionWrite& write) {
    const std::vector<std::byte> bytes = encode_blob(*write.blob);
    Statement insert(
        database_,
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
  FULMAR_ASSIGN(Database database, open_database(path));
  auto store = std::make_unique<SqliteStore>(std::move(lock), std::move(database));
  FULMAR_TRY(store->prepare(path));
  return std::unique_ptr<SessionStore>(std::move(store));
}

}  // namespace fulmar
