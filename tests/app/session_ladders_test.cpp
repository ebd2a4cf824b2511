// Which stores a server does without, and which end its start.
#include "app/session_ladders.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "app/exit_code.h"

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

TEST_F(SessionFiles, OfTheDefaultNameAreDoneWithoutUnlessSessionsLieThere) {
  EXPECT_TRUE(open("folder", false).ok());
  EXPECT_TRUE(open("missing/sessions.db", false).ok());
  EXPECT_FALSE(open("damaged.db", false).ok());
}

TEST_F(SessionFiles, ThatAreInUseSayByWhom) {
  const auto first = open("new.db", true);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(open("new.db", true).error().text, HasSubstr("in use by another server; stop that one"));
  EXPECT_TRUE(open("new.db", false).ok());
}

}  // namespace
}  // namespace fulmar
