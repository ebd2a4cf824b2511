// What a call of the store reads of the file: its own session's state where it wants that, and nobody else's.
// SQLite's calls of the system are counted.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/sqlite_statement.h"
#include "cache/sqlite_store.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

std::atomic<int64_t> bytes_read = 0;

ssize_t count(ssize_t found) {
  bytes_read += std::max<ssize_t>(found, 0);
  return found;
}
ssize_t counted_read(int file, void* to, size_t bytes) { return count(::read(file, to, bytes)); }
ssize_t counted_pread(int file, void* to, size_t bytes, off_t at) {
  return count(::pread(file, to, bytes, at));
}

// Where SQLite has a call of that name it is counted; systems differ in which they use.
void count_reads() {
  sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
  vfs->xSetSystemCall(vfs, "read", reinterpret_cast<sqlite3_syscall_ptr>(counted_read));
  for (const char* name : {"pread", "pread64"}) {
    vfs->xSetSystemCall(vfs, name, reinterpret_cast<sqlite3_syscall_ptr>(counted_pread));
  }
}

constexpr int64_t kSessions = 12;
// Of everything but states.
constexpr int64_t kLittle = 256 << 10;

SessionWrite write_of(const std::string& id, int64_t turn) {
  auto blob = std::make_shared<StateBlob>();
  *blob = {.fingerprint = "model",
           .layout = {.n_layer = 4, .n_embd = 256, .n_head = 1, .head_size = 256, .fields = kShiftsAndWkv},
           .tokens = 10,
           .turn = turn};
  blob->payload.resize(blob->layout.slot_bytes());
  return {id, blob};
}

class SqliteReads : public testing::Test {
 protected:
  SqliteReads() : folder_(fs::path(testing::TempDir()) / ("fulmar_reads_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    count_reads();
    const auto store = open();
    for (int64_t i = 0; i < kSessions; ++i) {
      EXPECT_TRUE(store->store({write_of("s" + std::to_string(i), 1)}).front().ok());
    }
  }
  ~SqliteReads() override { fs::remove_all(folder_); }

  std::unique_ptr<SessionStore> open(const SqliteOptions& options = {}) const {
    auto opened = open_sqlite_store(path(), options);
    EXPECT_TRUE(opened.ok());
    return std::move(*opened);
  }
  fs::path path() const { return folder_ / "sessions.db"; }
  // By a process that has nothing of the file in memory.
  int64_t read_by(const std::function<void(SessionStore&)>& action, const SqliteOptions& options = {}) const {
    const auto store = open(options);
    const int64_t before = bytes_read;
    action(*store);
    return bytes_read - before;
  }
  int64_t states() const {
    const auto database = open_database(path());
    Statement query(*database, "SELECT count(*) FROM fulmar_states");
    EXPECT_TRUE(query.next().ok());
    return query.column_integer(0);
  }

  const fs::path folder_;
  const int64_t state_ = static_cast<int64_t>(write_of("s", 1).blob->payload.size());
};

TEST_F(SqliteReads, WhatAsksForNoStateReadsNone) {
  ASSERT_GT(state_, 4 * kLittle);
  const int64_t before = bytes_read;
  open();
  EXPECT_GT(bytes_read, before) << "reads are counted";
  EXPECT_LT(bytes_read - before, kLittle) << "a start";
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_EQ(store.list("model", {})->size(), kSessions); }),
            kLittle);
  EXPECT_LT(
      read_by([](SessionStore& store) { EXPECT_EQ(store.list("model", {.prefix = "s1"})->size(), 3u); }),
      kLittle);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_EQ(*store.newest_turn("model", "s7"), 1); }), kLittle);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_EQ(*store.erase("model", "none", true), 0); }), kLittle);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_EQ(*store.erase("", "none", true), 0); }), kLittle);
  EXPECT_LT(
      read_by([](SessionStore& store) { EXPECT_TRUE(store.sweep("model")->empty()); }, {.lifetime = 1e6}),
      kLittle);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_FALSE(*store.store({write_of("s7", 1)}).front()); }),
            kLittle)
      << "a turn that comes too late";
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_TRUE(*store.store({write_of("new", 1)}).front()); }),
            kLittle);
}

TEST_F(SqliteReads, WhatLooksForOneSessionReadsNoOthersState) {
  const int64_t own = state_ + state_ / 8 + kLittle;
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_TRUE(store.load("model", "s7")->has_value()); }), own);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_TRUE(*store.store({write_of("s7", 2)}).front()); }),
            own);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_EQ(*store.erase("model", "s7", true), 1); }), own);
  EXPECT_LT(read_by([](SessionStore& store) { EXPECT_EQ(*store.erase("", "s8", false), 1); }), own);
  const int64_t most = (kSessions - 2) * state_;
  EXPECT_LT(read_by(
                [](SessionStore& store) {
                  EXPECT_TRUE(*store.store({write_of("newest", 1)}).front());
                  EXPECT_EQ(store.sweep("model")->size(), 1u);
                },
                {.most_bytes = most + kLittle}),
            own + own)
      << "one beyond the bound pushes out one";
}

TEST_F(SqliteReads, NoStateOutlivesItsSession) {
  EXPECT_EQ(states(), kSessions);
  const auto left = [&](const std::function<void(SessionStore&)>& action, const SqliteOptions& options = {}) {
    size_t listed = 0;
    {
      const auto store = open(options);
      action(*store);
      listed = store->list("model", {})->size();
    }
    EXPECT_EQ(states(), static_cast<int64_t>(listed));
    return static_cast<int64_t>(listed);
  };
  EXPECT_EQ(left([](SessionStore& store) { EXPECT_TRUE(*store.store({write_of("s7", 2)}).front()); }),
            kSessions);
  EXPECT_EQ(left([](SessionStore& store) { EXPECT_TRUE(*store.store({write_of("s7:1", 1)}).front()); }),
            kSessions + 1);
  EXPECT_EQ(left([](SessionStore& store) { EXPECT_EQ(*store.erase("model", "s7", true), 2); }),
            kSessions - 1);
  EXPECT_EQ(left([](SessionStore& store) { EXPECT_EQ(*store.erase("", "s8", false), 1); }), kSessions - 2);
  const int64_t bound = 4 * state_;
  EXPECT_LT(left([](SessionStore& store) { EXPECT_TRUE(store.sweep("model").ok()); }, {.most_bytes = bound}),
            5);
  const Clocks later{.wall = [] { return unix_time() + 1e6; }};
  EXPECT_EQ(left([](SessionStore& store) { EXPECT_TRUE(store.sweep("model").ok()); },
                 {.lifetime = 10, .clocks = later}),
            0);
}

}  // namespace
}  // namespace fulmar
