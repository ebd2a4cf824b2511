// Which stores a server does without, and which end its start.
#include "app/served/session_ladders.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "app/core/exit_code.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SessionFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("fulmar_ladders_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "folder");
    std::ofstream(folder_ / "damaged.db") << std::string(10'000, 'x');
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result<std::unique_ptr<SessionLadders>> open(const std::string& name, bool asked_for) const {
    SessionFlags flags;
    flags.session_db = (folder_ / name).string();
    flags.session_db_asked_for = asked_for;
    return SessionLadders::open(flags);
  }

  fs::path folder_;
};

TEST_F(SessionFiles, ThatWereNamedAndCannotBeUsedEndTheStart) {
  for (const char* name : {"damaged.db", "folder", "missing/sessions.db"}) {
    const auto opened = open(name, true);
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_EQ(exit_code_of(opened.error().kind), 3) << name;
    EXPECT_THAT(opened.error().text, testing::AllOf(HasSubstr(name), HasSubstr("--state-db-path"))) << name;
  }
  EXPECT_TRUE(open("new.db", true).ok());
}

TEST(SessionFlags, ThatContradictEachOtherAreNamed) {
  const auto told = [](bool durable, const std::string& file, const std::string& store,
                       bool of_environment = false) {
    SessionFlags flags;
    flags.durable = durable;
    flags.session_db_asked_for = !file.empty();
    if (!file.empty()) flags.session_db = file;
    flags.state_store = store;
    const Status status = check_sessions(flags, of_environment);
    return status.ok() ? std::string() : status.error().text;
  };
  const std::string store = "redis://127.0.0.1";
  EXPECT_THAT(told(true, "none", ""),
              testing::AllOf(HasSubstr("--durable-sessions"), HasSubstr("--state-db-path")));
  EXPECT_THAT(told(false, "x.db", store), testing::AllOf(HasSubstr("--state-store"), HasSubstr("'x.db'")));
  EXPECT_EQ(told(true, "", ""), "");
  EXPECT_EQ(told(true, "none", store), "");
  EXPECT_EQ(told(false, "", store), "");
  EXPECT_EQ(told(false, "x.db", store, true), "");
}

// What nobody has named either: there may be sessions in it, which would be told as if there were none.
TEST_F(SessionFiles, ThatExistAndCannotBeUsedEndTheStart) {
  ASSERT_TRUE(open("whole.db", false).ok());
  fs::create_directories(folder_ / "whole.db-wal");  // SQLite cannot write
  fs::create_directories(folder_ / "locked.db.lock");
  std::ofstream(folder_ / "locked.db") << "something";
  fs::create_symlink(folder_ / "loop.db", folder_ / "loop.db");
  for (const char* name : {"damaged.db", "folder", "whole.db", "locked.db", "loop.db"}) {
    const auto opened = open(name, false);
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_EQ(exit_code_of(opened.error().kind), 3) << name << opened.error().text;
    EXPECT_THAT(opened.error().text, testing::AllOf(HasSubstr(name), HasSubstr("--state-db-path"))) << name;
  }
}

TEST_F(SessionFiles, ThatCannotBeMadeAreDoneWithoutAndTold) {
  std::ofstream(folder_ / "file");
  for (const char* name : {"missing/sessions.db", "file/sessions.db"}) {
    const auto opened = open(name, false);
    ASSERT_TRUE(opened.ok()) << name;
    EXPECT_THAT((*opened)->in_memory(), testing::AllOf(HasSubstr(name), HasSubstr("in memory only")));
  }
  // A start that found no room may have left an empty file.
  std::ofstream(folder_ / "empty.db");
  fs::create_directories(folder_ / "empty.db-wal");
  EXPECT_FALSE((*open("empty.db", false))->in_memory().empty());
  EXPECT_TRUE((*open("fine.db", false))->in_memory().empty());
}

TEST_F(SessionFiles, ThatAreInUseSayByWhom) {
  const auto first = open("new.db", true);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(open("new.db", true).error().text, HasSubstr("in use by another server; stop that one"));
  EXPECT_THAT((*open("new.db", false))->in_memory(), HasSubstr("in use by another server"));
}

// Of models whose ladders are gone, as after a removal.
TEST_F(SessionFiles, LetGoOfASessionWhateverModelItIsOf) {
  const auto ladders = open("new.db", true);
  ASSERT_TRUE(ladders.ok());
  const StateLayout layout{.n_layer = 1, .n_embd = 4, .n_head = 1, .head_size = 4, .fields = kShiftsAndWkv};
  for (const char* model : {"one", "other"}) {
    const auto ladder = (*ladders)->of(model, 32);
    for (const char* id : {"resp:1", "resp:12"}) {
      ASSERT_TRUE(ladder->import(id, std::vector<std::byte>(layout.slot_bytes()), layout, 3).ok());
    }
  }
  EXPECT_TRUE((*ladders)->erase_of_all_models("resp:1").ok());
  for (const char* model : {"one", "other"}) {
    const auto ladder = (*ladders)->of(model, 32);
    EXPECT_FALSE(*ladder->contains("resp:1")) << model;
    EXPECT_TRUE(*ladder->contains("resp:12")) << model;
  }
}

}  // namespace
}  // namespace fulmar
