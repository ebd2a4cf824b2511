// Sessions in a file: what may be opened, what becomes of older files, and what is erased by itself.
#include "cache/sqlite_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cache/session_name.h"
#include "cache/sqlite_statement.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kDay = 86'400, kYear = 365 * kDay;

SessionWrite write_of(const std::string& id, int64_t turn, int64_t width = 4) {
  auto blob = std::make_shared<StateBlob>();
  *blob = {
      .fingerprint = "model",
      .layout = {.n_layer = 1, .n_embd = width, .n_head = 1, .head_size = width, .fields = kShiftsAndWkv},
      .tokens = 10 * turn,
      .turn = turn};
  blob->payload.resize(blob->layout.slot_bytes());
  return {id, blob, session_name(id).owner};
}

std::vector<std::string> ids(SessionStore& store, const SessionQuery& query = {}) {
  std::vector<std::string> found;
  const auto sessions = store.list("model", query);
  EXPECT_TRUE(sessions.ok());
  for (const StoredSession& session : *sessions) found.push_back(session.id);
  return found;
}

class SqliteStores : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("fulmar_sqlite_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<SessionStore> open(const SqliteOptions& options = {}) {
    auto opened = open_sqlite_store(path(), options);
    EXPECT_TRUE(opened.ok()) << opened.error().text;
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  Error refusal(const fs::path& path) {
    const auto opened = open_sqlite_store(path);
    EXPECT_FALSE(opened.ok()) << path;
    return opened.ok() ? Error{} : opened.error();
  }
  fs::path path() const { return folder_ / "sessions.db"; }
  void run(const char* sql) {
    const auto database = open_database(path());
    ASSERT_TRUE(database.ok());
    const Status done = execute(*database, sql);
    ASSERT_TRUE(done.ok()) << done.error().text;
  }
  std::string text_of(const char* sql) {
    const auto database = open_database(path());
    Statement query(*database, sql);
    EXPECT_TRUE(query.next().ok());
    return query.column_text(0);
  }
  // The first schema, with two sessions, or the second one, with a third session that has an owner.
  void make_old_schema(int schema = 1) {
    run("CREATE TABLE fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
        "CREATE TABLE fulmar_sessions("
        "  fingerprint TEXT NOT NULL, id TEXT NOT NULL, tokens INTEGER NOT NULL, turn INTEGER NOT NULL,"
        "  updated REAL NOT NULL, state BLOB NOT NULL, PRIMARY KEY(fingerprint, id)) WITHOUT ROWID;"
        "INSERT INTO fulmar_meta VALUES('schema', 1);");
    for (const char* id : {"a", "b:1"}) {
      const SessionWrite write = write_of(id, 3);
      const auto database = open_database(path());
      Statement insert(*database, "INSERT INTO fulmar_sessions VALUES('model', ?, 30, 3, 1000, ?)");
      const std::vector<std::byte> bytes = encode_blob(*write.blob);
      ASSERT_TRUE(insert.text(1, id).blob(2, bytes).run().ok());
    }
    if (schema == 1) return;
    run("ALTER TABLE fulmar_sessions ADD COLUMN owner TEXT GENERATED ALWAYS AS "
        "  (substr(id, 1, max(instr(id, char(31)) - 1, 0))) VIRTUAL;"
        "CREATE INDEX fulmar_sessions_by_age ON fulmar_sessions(updated);"
        "INSERT INTO fulmar_sessions SELECT fingerprint, 'bob' || char(31) || 'a', 7, 2, 900, state"
        "  FROM fulmar_sessions WHERE id = 'a';"
        "UPDATE fulmar_meta SET value = 2 WHERE key = 'schema';");
  }

  fs::path folder_;
};

class OldSqliteStores : public SqliteStores, public testing::WithParamInterface<int> {
 protected:
  std::string copy() const { return fmt::format("{}.schema-{}", path().string(), GetParam()); }
};

TEST_P(OldSqliteStores, AreCopiedBesideAndBroughtUp) {
  make_old_schema(GetParam());
  const bool with_owner = GetParam() == 2;
  {
    const auto store = open();
    for (const char* id : {"a", "b:1"}) {
      const auto loaded = store->load("model", id);
      ASSERT_TRUE(loaded.ok() && loaded->has_value()) << id;
      EXPECT_EQ((*loaded)->turn, 3);
      EXPECT_EQ((*loaded)->payload.size(), (*loaded)->layout.slot_bytes());
    }
    const std::string bobs = session_text("bob", "a");
    EXPECT_EQ(*store->newest_turn("model", bobs), with_owner ? 2 : 0);
    EXPECT_EQ(ids(*store).size(), with_owner ? 3u : 2u);
    EXPECT_TRUE(*store->store({write_of(session_text("alice", "a"), 1)}).front());
    EXPECT_TRUE(*store->store({write_of("a", 4)}).front());
    EXPECT_FALSE(*store->store({write_of("b:1", 3)}).front());
  }
  EXPECT_EQ(text_of("SELECT group_concat(owner || '/' || turn) FROM fulmar_sessions"),
            with_owner ? "/4,alice/1,/3,bob/2" : "/4,alice/1,/3");
  EXPECT_EQ(text_of("SELECT value FROM fulmar_meta WHERE key = 'schema'"), "3");
  EXPECT_EQ(text_of("SELECT count(*) FROM sqlite_master WHERE name LIKE 'fulmar_sessions_2%'"), "0");
  // The copy is what a program of that time opens.
  fs::rename(copy(), path());
  EXPECT_EQ(text_of("SELECT value FROM fulmar_meta WHERE key = 'schema'"), std::to_string(GetParam()));
  EXPECT_EQ(text_of("SELECT count(*) FROM fulmar_sessions WHERE length(state) > 0"), with_owner ? "3" : "2");
  EXPECT_EQ(fs::status(path()).permissions() & fs::perms::others_read, fs::perms::none);
}

TEST_P(OldSqliteStores, StayAsTheyAreWhereNoCopyCanBeMade) {
  make_old_schema(GetParam());
  fs::create_directories(copy() + "/in the way");
  EXPECT_THAT(refusal(path()).text, HasSubstr("copy"));
  EXPECT_EQ(refusal(path()).kind, ErrorKind::unsupported);
  EXPECT_EQ(text_of("SELECT value FROM fulmar_meta WHERE key = 'schema'"), std::to_string(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Schemas, OldSqliteStores, testing::Values(1, 2));

// Whatever else is to be found there: an error that names the file, and every byte stays.
TEST_F(SqliteStores, WhatCannotBeUsedIsAnErrorAndStaysAsItIs) {
  open()->store({write_of("a", 1, 256), write_of("b", 1, 256)});
  std::ifstream good(path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(good), {}};
  std::string header_alone = bytes.substr(0, 16) + std::string(100'000, 'x');
  const std::string kinds[] = {std::string(100'000, 'x'), header_alone, bytes.substr(0, bytes.size() / 2)};
  for (const std::string& kind : kinds) {
    fs::remove(path().string() + "-wal");
    std::ofstream(path(), std::ios::binary) << kind;
    const Error error = refusal(path());
    EXPECT_EQ(error.kind, ErrorKind::corrupt) << error.text;
    EXPECT_THAT(error.text, HasSubstr(path().string()));
    std::ifstream after(path(), std::ios::binary);
    EXPECT_EQ((std::string{std::istreambuf_iterator<char>(after), {}}), kind);
  }
  EXPECT_EQ(refusal(folder_).kind, ErrorKind::io);
  EXPECT_EQ(refusal(folder_ / "missing" / "sessions.db").kind, ErrorKind::io);
}

TEST_F(SqliteStores, ANewerSchemaIsRefusedByName) {
  open();
  run("UPDATE fulmar_meta SET value = 4");
  const Error error = refusal(path());
  EXPECT_EQ(error.kind, ErrorKind::unsupported);
  EXPECT_THAT(error.text, HasSubstr("schema 4 found, 1 to 3 wanted"));
}

// By whatever name: the path itself, a symbolic link, a hard link.
TEST_F(SqliteStores, NoNameOfAFileMeansAnythingElse) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  for (const std::string name : {":memory:", "file:kept.db?mode=memory"}) {
    EXPECT_TRUE(open_sqlite_store(name).ok()) << name;
    EXPECT_GT(fs::file_size(name), 0u) << name;
  }
  fs::current_path(before);
}

TEST_F(SqliteStores, OneProcessHasTheFile) {
  auto store = open();
  fs::create_symlink(path(), folder_ / "symbolic.db");
  fs::create_hard_link(path(), folder_ / "hard.db");
  for (const char* name : {"sessions.db", "symbolic.db", "hard.db"}) {
    fs::remove(path().string() + ".lock");
    EXPECT_EQ(refusal(folder_ / name).kind, ErrorKind::unavailable) << name;
  }
  store.reset();
  EXPECT_TRUE(open_sqlite_store(folder_ / "symbolic.db").ok());
}

// Whatever happens to its name, a file that nobody would find gets nothing, and keeps it for who puts it
// back.
TEST_F(SqliteStores, AFileThatLostItsNameTakesNothingUntilItIsBack) {
  const auto store = open();
  ASSERT_TRUE(*store->store({write_of("old", 1)})[0]);
  ASSERT_TRUE(store->store({write_of("gone", 1)})[0].ok());
  ASSERT_EQ(*store->erase("model", "gone", false), 1);
  EXPECT_EQ(store->lost("model"), 0);
  const fs::path away = folder_ / "away.db";
  fs::rename(path(), away);
  for (const bool replaced : {false, true}) {
    if (replaced) std::ofstream(path()) << "a backup";
    const auto outcome = store->store({write_of("new", 1)});
    ASSERT_FALSE(outcome[0].ok()) << replaced;
    EXPECT_EQ(outcome[0].error().kind, ErrorKind::unavailable);
    EXPECT_THAT(outcome[0].error().text, HasSubstr(path().string()));
    EXPECT_FALSE(store->erase("model", "old", false).ok()) << replaced;
    EXPECT_FALSE(store->sweep("model").ok()) << replaced;
    EXPECT_EQ(store->lost("model"), 1) << replaced;
    EXPECT_EQ(store->lost("other"), 0) << replaced;
  }
  fs::rename(away, path());
  EXPECT_TRUE(*store->store({write_of("new", 1)})[0]);
  EXPECT_EQ(store->lost("model"), 0);
  EXPECT_THAT(ids(*store), ElementsAre("new", "old"));
}

// Disks of many sizes: what is stored and what SQLite keeps beside it never needs more than there is, what is
// left out would not have fitted, and with more room it is stored.
TEST_F(SqliteStores, StoresWhatTheDiskHasRoomFor) {
  const uint64_t bytes = write_of("s", 1, 256).blob->payload.size();
  std::vector<SessionWrite> writes;
  for (int i = 10; i < 40; ++i) writes.push_back(write_of(std::to_string(i), 1, 256));
  size_t least = writes.size(), most = 0;
  for (uint64_t disk = 2 << 20; disk < (2 << 20) + 30 * bytes; disk += 3 * bytes) {
    for (const char* ending : {"", "-wal", "-shm"}) fs::remove(path().string() + ending);
    uint64_t size = disk;
    const auto used = [&] {
      uint64_t sum = 0;
      for (const char* ending : {"", "-wal"}) {
        std::error_code none;
        const auto one = fs::file_size(path().string() + ending, none);
        if (!none) sum += one;
      }
      return sum;
    };
    const auto store = open({.room = [&](const fs::path&) { return size - std::min(size, used()); }});
    size_t stored = 0;
    for (const auto& outcome : store->store(writes)) stored += outcome.ok() ? 1 : 0;
    EXPECT_LE(used(), size);
    EXPECT_EQ(ids(*store).size(), stored);
    least = std::min(least, stored);
    most = std::max(most, stored);
    size = 1 << 30;
    store->store(writes);
    EXPECT_EQ(ids(*store).size(), writes.size());
  }
  EXPECT_GT(least, 0u);
  EXPECT_LT(least, most);
}

TEST_F(SqliteStores, ListsByPages) {
  const auto store = open();
  const std::vector<std::string> all{"a", "a:1", "a:2", "b", "b\xff", "b\xff\xff", "c"};
  for (const std::string& id : all) store->store({write_of(id, 1)});
  EXPECT_EQ(ids(*store), all);
  EXPECT_THAT(ids(*store, {.prefix = "a:"}), ElementsAre("a:1", "a:2"));
  EXPECT_THAT(ids(*store, {.prefix = "b\xff"}), ElementsAre("b\xff", "b\xff\xff"));
  EXPECT_THAT(ids(*store, {.after = "a:2", .limit = 2}), ElementsAre("b", "b\xff"));
  EXPECT_THAT(ids(*store, {.prefix = "b", .after = "b"}), ElementsAre("b\xff", "b\xff\xff"));
}

// A clock of the test's.
struct TestClock {
  double wall = 1.8e9, passing = 5;
  Clocks clocks() {
    return {.wall = [this] { return wall; }, .passing = [this] { return passing; }};
  }
  void pass(double seconds) {
    wall += seconds;
    passing += seconds;
  }
};

std::vector<std::string> swept(SessionStore& store) {
  std::vector<std::string> gone;
  const auto sessions = store.sweep("model");
  EXPECT_TRUE(sessions.ok());
  for (const StoredSession& session : *sessions) gone.push_back(session.id);
  return gone;
}

TEST_F(SqliteStores, SweepsWhatIsOlderThanItMayBe) {
  TestClock clock;
  const auto store = open({.lifetime = 30 * kDay, .clocks = clock.clocks()});
  store->store({write_of("old", 1)});
  clock.pass(20 * kDay);
  store->store({write_of("young", 1)});
  EXPECT_TRUE(swept(*store).empty());
  clock.pass(11 * kDay);
  EXPECT_THAT(swept(*store), ElementsAre("old"));
  EXPECT_THAT(ids(*store), ElementsAre("young"));
}

TEST_F(SqliteStores, SweepsAtItsStartWhatAgedMeanwhile) {
  TestClock clock;
  open({.lifetime = 10, .clocks = clock.clocks()})->store({write_of("old", 1)});
  clock.wall += 30;
  EXPECT_THAT(swept(*open({.lifetime = 10, .clocks = clock.clocks()})), ElementsAre("old"));
}

// Wherever the wall clock goes and however often the server starts anew: nothing is gone before its time.
TEST_F(SqliteStores, AClockThatJumpsErasesNothing) {
  TestClock clock;
  const SqliteOptions options{.lifetime = 30 * kDay, .clocks = clock.clocks()};
  double passed = 0;
  for (const double jump : {0.0, 400 * kDay, -800 * kDay, 20 * kYear, -20 * kYear, -40 * kYear, 2 * kDay}) {
    auto store = open(options);
    store->store({write_of("of " + std::to_string(jump), 1)});
    clock.wall += jump;
    EXPECT_TRUE(swept(*store).empty()) << jump;
    store.reset();
    store = open(options);
    EXPECT_TRUE(swept(*store).empty()) << jump;
    clock.pass(kDay);
    passed += kDay;
    EXPECT_TRUE(swept(*store).empty()) << jump;
  }
  const auto store = open(options);
  clock.pass(31 * kDay);
  EXPECT_EQ(swept(*store).size(), 7u) << "and all of it is gone in time";
}

// The oldest go as soon as something is written beyond the bound; what was written last stays.
TEST_F(SqliteStores, KeepsToItsBoundInBytes) {
  constexpr int64_t kBound = 3 << 20;
  TestClock clock;
  const auto store = open({.most_bytes = kBound, .clocks = clock.clocks()});
  const auto bytes = static_cast<int64_t>(write_of("s", 1, 256).blob->payload.size());
  ASSERT_GT(bytes, kBound / 20);
  for (int i = 10; i < 60; ++i) {
    clock.pass(1);
    ASSERT_TRUE(store->store({write_of(std::to_string(i), 1, 256)}).front().ok());
    const auto kept = ids(*store);
    EXPECT_LE(static_cast<int64_t>(kept.size()) * bytes, kBound);
    EXPECT_EQ(kept.back(), std::to_string(i));
    EXPECT_EQ(std::stoi(kept.back()) - std::stoi(kept.front()) + 1, static_cast<int>(kept.size()));
  }
  EXPECT_GT(ids(*store).size(), 2u);
  EXPECT_FALSE(swept(*store).empty()) << "memory is told";
}

TEST_F(SqliteStores, BeyondTheBoundWhoHasMostGivesUpOnesOwn) {
  TestClock clock;
  const auto store = open({.most_bytes = 3 << 20, .clocks = clock.clocks()});
  const auto put = [&](const std::string& owner, const std::string& id) {
    clock.pass(1);
    EXPECT_TRUE(store->store({write_of(session_text(owner, id), 1, 256)}).front().ok());
  };
  put("alice", "hers");
  put("", "the server's own");
  for (int i = 0; i < 40; ++i) put("bob", std::to_string(i));
  const auto kept = ids(*store);
  EXPECT_LT(kept.size(), 30u);
  EXPECT_THAT(kept, Contains(session_text("alice", "hers")));
  EXPECT_THAT(kept, Contains("the server's own"));
  EXPECT_THAT(kept, Contains(session_text("bob", "39")));
  EXPECT_THAT(kept, Not(Contains(session_text("bob", "0"))));
}

// The server names the state after a stored response by itself; it is kept on the account of whose that is.
TEST_F(SqliteStores, WhatTheServerNamesCountsToItsOwner) {
  TestClock clock;
  const auto store = open({.most_bytes = 3 << 20, .clocks = clock.clocks()});
  const auto put = [&](const std::string& owner, const std::string& id) {
    clock.pass(1);
    SessionWrite write = write_of(id, 1, 256);
    write.owner = owner;
    EXPECT_TRUE(store->store({write}).front().ok());
  };
  put("alice", "resp:hers");
  for (int i = 0; i < 40; ++i) put("bob", "resp:" + std::to_string(i));
  const auto kept = ids(*store);
  EXPECT_LT(kept.size(), 30u);
  EXPECT_THAT(kept, Contains("resp:hers"));
  EXPECT_THAT(kept, Contains("resp:39"));
  EXPECT_THAT(kept, Not(Contains("resp:0")));
}

TEST_F(SqliteStores, EraseOfEveryModelWhereNoneIsNamed) {
  const auto store = open();
  const auto of = [](const char* model, const char* id) {
    SessionWrite write = write_of(id, 1);
    auto blob = std::make_shared<StateBlob>(*write.blob);
    blob->fingerprint = model;
    return SessionWrite{id, blob};
  };
  store->store({of("model", "a"), of("other", "a"), of("model", "a:1"), of("other", "ab")});
  EXPECT_EQ(*store->erase("", "a", false), 2);
  EXPECT_EQ(ids(*store), std::vector<std::string>{"a:1"});
  EXPECT_EQ(store->list("other", {})->size(), 1u);
  EXPECT_EQ(*store->erase("", "a", true), 1);
  EXPECT_TRUE(ids(*store).empty());
}

}  // namespace
}  // namespace fulmar
