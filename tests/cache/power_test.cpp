// What must outlive a power failure is flushed to the disk before its store answers. Power does not fail
// here: calls of the system are counted.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "cache/document_store.h"
#include "cache/sqlite_store.h"

namespace {
std::atomic<int> flushes = 0;
}  // namespace

// In place of the C library's, for SQLite too.
extern "C" int fdatasync(int file) {
  ++flushes;
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}
extern "C" int fsync(int file) {
  ++flushes;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace fulmar {
namespace {

namespace fs = std::filesystem;

class Power : public testing::TestWithParam<bool> {
 protected:
  Power() : folder_(fs::path(testing::TempDir()) / ("fulmar_power_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Power() override { fs::remove_all(folder_); }
  fs::path file() const { return folder_ / "a.db"; }
  static bool flushes_in(const std::function<void()>& action) {
    const int before = flushes;
    action();
    return flushes > before;
  }

 private:
  const fs::path folder_;
};

TEST_P(Power, ATurnIsOnTheDiskWhenItsStoreAnswers) {
  const auto store = open_sqlite_store(file(), {.durable = GetParam()});
  ASSERT_TRUE(store.ok());
  const auto turn = [&](int64_t number) {
    auto blob = std::make_shared<StateBlob>();
    blob->fingerprint = "f";
    blob->turn = number;
    EXPECT_TRUE((*store)->store({{"s", blob}}).at(0).ok());
  };
  turn(1);  // the first one begins the file that is written ahead
  EXPECT_EQ(flushes_in([&] { turn(2); }), GetParam());
  EXPECT_EQ(flushes_in([&] { EXPECT_EQ(*(*store)->erase("f", "s", false), 1); }), GetParam());
}

TEST_P(Power, ADocumentIsOnTheDiskWhenItsStoreAnswers) {
  const auto store = open_document_store(file(), {.durable = GetParam()});
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->put({"first", "owner", 1, "text"}).ok());
  EXPECT_EQ(flushes_in([&] { EXPECT_TRUE((*store)->put({"second", "owner", 2, "text"}).ok()); }), GetParam());
  EXPECT_EQ(flushes_in([&] { EXPECT_TRUE((*store)->set_mark("second", 3).ok()); }), GetParam());
  EXPECT_EQ(flushes_in([&] { EXPECT_TRUE((*store)->take("first").ok()); }), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Stores, Power, testing::Bool(),
                         [](const auto& test) { return test.param ? "Durable" : "AsUsual"; });

}  // namespace
}  // namespace fulmar
