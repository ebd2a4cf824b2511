#include "cache/sqlite_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "cache/database_kind.h"
#include "cache/file_lock.h"
#include "cache/session_name.h"
#include "cache/session_schema.h"
#include "cache/split_writes.h"
#include "cache/sqlite_statement.h"

namespace fulmar {

namespace {

constexpr int kBusyMilliseconds = 2000;
// Of the disk, in bytes: left for what is no state, and from which on nothing is measured closely.
constexpr uint64_t kLeastRoom = uint64_t{1} << 20, kPlentyOfRoom = uint64_t{64} << 20;
// Sessions that one sweep erases at most.
constexpr int64_t kMostSwept = 64;
// Erased sessions that are remembered until somebody asks; of older ones memory may keep a copy.
constexpr size_t kMostTold = 10'000;

struct SweptSession {
  std::string fingerprint;
  StoredSession session;
};

// Returns the first text after this one.
std::string behind(std::string text) { return text += '\0'; }

// Returns the first text after all those that begin with `prefix`; nothing where there is none.
std::optional<std::string> after_all_with(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xFF) prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

// Passes on an answer of the file. A damaged page counts as trouble of the store, not of a
// session.
template <class T>
Result<T> of_file(Result<T> answer) {
  if (answer.ok() || answer.error().kind != ErrorKind::corrupt) return answer;
  return Error{ErrorKind::io, answer.error().text};
}

class SqliteStore final : public SessionStore {
 public:
  SqliteStore(std::filesystem::path path, FileLock lock, Database database, const SqliteOptions& options)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        database_(std::move(database)),
        options_(options),
        clock_(options.clocks, credit_for(options.lifetime)) {}
  ~SqliteStore() override { (void)clock_.save(database_); }

  Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) override {
    Statement query(database_,
                    "SELECT kept.state FROM fulmar_sessions AS session LEFT JOIN fulmar_states AS kept "
                    "ON kept.number = session.state WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, of_file(query.text(1, fingerprint).text(2, id).next()));
    if (!found) return std::optional<StateBlob>();
    FULMAR_ASSIGN(StateBlob blob, decode_blob(query.column_blob(0)));
    if (blob.fingerprint != fingerprint) {
      return Error{ErrorKind::corrupt,
                   fmt::format("session '{}': its state belongs to another model", session_id_of(id))};
    }
    return std::optional<StateBlob>(std::move(blob));
  }

  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    Statement query(database_, "SELECT turn FROM fulmar_sessions WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, of_file(query.text(1, fingerprint).text(2, id).next()));
    return found ? query.column_integer(0) : int64_t{0};
  }

  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    auto outcomes =
        store_what_fits(writes, [this](std::span<const SessionWrite> some) { return store_together(some); });
    if (const Status kept = keep_to_bound(); !kept.ok()) spdlog::error("{}", kept.error().text);
    return outcomes;
  }

  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    FULMAR_TRY(check_named(database_));
    std::vector<std::string> models{fingerprint};
    if (fingerprint.empty()) {
      FULMAR_ASSIGN(models, fingerprints());
    }
    int64_t erased = 0;
    for (const std::string& model : models) {
      FULMAR_ASSIGN(const int64_t own, erase_between(model, id, behind(id)));
      erased += own;
      if (!and_branches) continue;
      // A range instead of LIKE: ids may contain its wildcards. ';' is the character after ':'.
      FULMAR_ASSIGN(const int64_t branches, erase_between(model, id + ':', id + ';'));
      erased += branches;
    }
    return erased;
  }

  Result<std::vector<StoredSession>> list(const std::string& fingerprint,
                                          const SessionQuery& wanted) override {
    Statement query(database_,
                    "SELECT id, updated, tokens, turn FROM fulmar_sessions WHERE fingerprint = ? "
                    "AND id >= ? AND id < ? ORDER BY id LIMIT ?");
    query.text(1, fingerprint).text(2, std::max(wanted.prefix, behind(wanted.after)));
    const auto end = after_all_with(wanted.prefix);
    // Any blob sorts after all texts.
    if (end) query.text(3, *end);
    if (!end) query.blob(3, std::as_bytes(std::span("")));
    query.integer(4, wanted.limit);
    std::vector<StoredSession> sessions;
    FULMAR_ASSIGN(bool more, of_file(query.next()));
    while (more) {
      sessions.push_back(
          {query.column_text(0), query.column_real(1), query.column_integer(2), query.column_integer(3)});
      FULMAR_ASSIGN(more, of_file(query.next()));
    }
    return sessions;
  }

  Result<std::vector<StoredSession>> sweep(const std::string& fingerprint) override {
    FULMAR_TRY(check_named(database_));
    FULMAR_TRY(clock_.save(database_));
    if (options_.lifetime > 0) FULMAR_TRY(erase_oldest(clock_.now() - options_.lifetime, kMostSwept));
    FULMAR_TRY(keep_to_bound());
    std::vector<StoredSession> gone;
    std::erase_if(swept_, [&](SweptSession& one) {
      if (one.fingerprint != fingerprint) return false;
      gone.push_back(std::move(one.session));
      return true;
    });
    return gone;
  }

  int64_t lost(const std::string& fingerprint) override {
    if (check_named(database_).ok()) return 0;
    Statement query(database_, "SELECT count(*) FROM fulmar_sessions WHERE fingerprint = ?");
    const auto counted = query.text(1, fingerprint).next();
    return counted.ok() && *counted ? query.column_integer(0) : 0;
  }

  Status prepare() {
    sqlite3_busy_timeout(database_.get(), kBusyMilliseconds);
    FULMAR_TRY(check_kind(database_, path_, DatabaseKind::sessions));
    FULMAR_TRY(write_ahead(database_, options_.durable));
    FULMAR_TRY(prepare_sessions(database_, path_));
    Statement newest(database_, "SELECT max(updated) FROM fulmar_sessions");
    FULMAR_TRY(newest.next());
    FULMAR_TRY(clock_.load(database_, newest.column_real(0)));
    return {};
  }

 private:
  // Checks the room for a transaction, which is written twice: beside the file and then into it. With room
  // for one copy alone it could not be moved into the file, nor any later one. Empties the part beside the
  // file where the disk is nearly full.
  Status make_room(std::span<const SessionWrite> writes) {
    uint64_t wanted = kLeastRoom;
    for (const SessionWrite& write : writes) wanted += 2 * write.blob->payload.size();
    if (options_.room(path_) >= wanted + kPlentyOfRoom) return {};
    sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
    const uint64_t found = options_.room(path_);
    if (found >= wanted) return {};
    return Error{ErrorKind::resource, fmt::format("database '{}': {} bytes of the disk are free, {} wanted",
                                                  path_.string(), found, wanted)};
  }

  Result<std::vector<bool>> store_together(std::span<const SessionWrite> writes) {
    std::vector<bool> stored;
    FULMAR_TRY(check_named(database_));
    FULMAR_TRY(make_room(writes));
    FULMAR_TRY(execute(database_, "BEGIN IMMEDIATE"));
    Status done;
    for (size_t i = 0; i < writes.size() && done.ok(); ++i) {
      const Result<bool> outcome = store_one(writes[i]);
      stored.push_back(outcome.ok() && *outcome);
      if (!outcome.ok()) done = outcome.error();
    }
    if (done.ok()) done = execute(database_, "COMMIT");
    if (done.ok()) return stored;
    (void)execute(database_, "ROLLBACK");
    return done.error();
  }

  // Erases a model's sessions from one id on and before another one; returns how many.
  Result<int64_t> erase_between(const std::string& fingerprint, const std::string& from,
                                const std::string& before) {
    Statement remove(database_, "DELETE FROM fulmar_sessions WHERE fingerprint = ? AND id >= ? AND id < ?");
    FULMAR_TRY(remove.text(1, fingerprint).text(2, from).text(3, before).run());
    return static_cast<int64_t>(sqlite3_changes(database_.get()));
  }

  // Returns whether it is stored; false where this turn or a later one is.
  Result<bool> store_one(const SessionWrite& write) {
    const StateBlob& blob = *write.blob;
    Statement known(database_, "SELECT turn, state FROM fulmar_sessions WHERE fingerprint = ? AND id = ?");
    FULMAR_ASSIGN(const bool found, known.text(1, blob.fingerprint).text(2, write.id).next());
    if (found && known.column_integer(0) >= blob.turn) return false;
    const std::vector<std::byte> bytes = encode_blob(blob);
    Statement keep(database_, "INSERT OR REPLACE INTO fulmar_states(number, state) VALUES(?, ?)");
    if (found) keep.integer(1, known.column_integer(1));  // else SQLite chooses one
    FULMAR_TRY(keep.blob(2, bytes).run());
    const int64_t number =
        found ? known.column_integer(1) : int64_t{sqlite3_last_insert_rowid(database_.get())};
    Statement insert(database_,
                     "INSERT INTO fulmar_sessions(fingerprint, id, owner, tokens, turn, updated, state) "
                     "VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(fingerprint, id) DO UPDATE SET "
                     "owner = excluded.owner, tokens = excluded.tokens, turn = excluded.turn, "
                     "updated = excluded.updated, state = excluded.state");
    FULMAR_TRY(insert.text(1, blob.fingerprint)
                   .text(2, write.id)
                   .text(3, write.owner)
                   .integer(4, blob.tokens)
                   .integer(5, blob.turn)
                   .real(6, clock_.now())
                   .integer(7, number)
                   .run());
    return true;
  }

  // Returns the models that have sessions, by a look into the key for each.
  Result<std::vector<std::string>> fingerprints() {
    std::vector<std::string> models;
    for (std::string last;; last = models.back()) {
      Statement next(
          database_,
          "SELECT fingerprint FROM fulmar_sessions WHERE fingerprint > ? ORDER BY fingerprint LIMIT 1");
      FULMAR_ASSIGN(const bool found, next.text(1, last).next());
      if (!found) return models;
      models.push_back(next.column_text(0));
    }
  }

  // Returns the bytes of the file that are in use.
  Result<int64_t> bytes() {
    Statement query(database_,
                    "SELECT (page_count - freelist_count) * page_size "
                    "FROM pragma_page_count, pragma_freelist_count, pragma_page_size");
    FULMAR_ASSIGN(const bool found, query.next());
    return found ? query.column_integer(0) : 0;
  }

  // Erases sessions until the file is within its bound, each the oldest of the owner with most sessions (as
  // fair_eviction.h does). Always keeps one session, however large.
  Status keep_to_bound() {
    if (options_.most_bytes == 0) return {};
    FULMAR_ASSIGN(int64_t used, bytes());
    for (int64_t erased = 0; erased < kMostSwept && used > options_.most_bytes; ++erased) {
      Statement remove(database_,
                       "DELETE FROM fulmar_sessions WHERE (fingerprint, id) IN ("
                       "  SELECT fingerprint, id FROM fulmar_sessions WHERE owner = ("
                       "    SELECT owner FROM fulmar_sessions GROUP BY owner "
                       "    ORDER BY count(*) DESC, min(updated) LIMIT 1) "
                       "  AND EXISTS (SELECT 1 FROM fulmar_sessions LIMIT 1 OFFSET 1) "
                       "  ORDER BY updated LIMIT 1) "
                       "RETURNING fingerprint, id, updated, tokens, turn");
      FULMAR_TRY(erase_and_tell(remove));
      if (sqlite3_changes(database_.get()) == 0) return {};
      FULMAR_ASSIGN(used, bytes());
    }
    return {};
  }

  // Erases at most `most` sessions whose last turn was before `before`.
  Status erase_oldest(double before, int64_t most) {
    Statement remove(database_,
                     "DELETE FROM fulmar_sessions WHERE (fingerprint, id) IN (SELECT fingerprint, id "
                     "FROM fulmar_sessions WHERE updated < ?1 ORDER BY updated LIMIT ?2) "
                     "RETURNING fingerprint, id, updated, tokens, turn");
    return erase_and_tell(remove.real(1, before).integer(2, most));
  }

  Status erase_and_tell(Statement& remove) {
    FULMAR_ASSIGN(bool more, remove.next());
    while (more) {
      swept_.push_back({remove.column_text(0),
                        {remove.column_text(1), remove.column_real(2), remove.column_integer(3),
                         remove.column_integer(4)}});
      if (swept_.size() > kMostTold) swept_.erase(swept_.begin());
      FULMAR_ASSIGN(more, remove.next());
    }
    return {};
  }

  const std::filesystem::path path_;
  const FileLock lock_;  // given back last
  Database database_;
  const SqliteOptions options_;
  DatabaseClock clock_;
  std::vector<SweptSession> swept_;
};

}  // namespace

uint64_t room_beside(const std::filesystem::path& file) {
  std::error_code unknown;
  const auto space = std::filesystem::space(file, unknown);
  return unknown ? std::numeric_limits<uint64_t>::max() : space.available;
}

Result<std::unique_ptr<SessionStore>> open_sqlite_store(const std::filesystem::path& path,
                                                        const SqliteOptions& options) {
  FULMAR_ASSIGN(FileLock lock, FileLock::take(path));
  FULMAR_ASSIGN(Database database, open_database(path));
  auto store = std::make_unique<SqliteStore>(path, std::move(lock), std::move(database), options);
  FULMAR_TRY(store->prepare());
  return std::unique_ptr<SessionStore>(std::move(store));
}

}  // namespace fulmar
