// The file of names under which models were pulled.
#include "hub/pulled_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

class PulledNames : public testing::Test {
 protected:
  PulledNames() { fs::create_directories(folder_); }
  ~PulledNames() override { fs::remove_all(folder_); }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(folder_ / ".pulled").rdbuf();
    return text.str();
  }
  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("fulmar_pulled_" + std::to_string(::getpid()) + "_" +
                                      testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(PulledNames, AreFoundAgainAndTheLastOneCounts) {
  EXPECT_TRUE(pulled_names(folder_).empty());
  const HubName plain{"own", "tiny", ""}, file{"own", "many", "sub/a.pth"};
  ASSERT_TRUE(remember_pull(folder_, plain, "tiny").ok());
  ASSERT_TRUE(remember_pull(folder_, file, "a").ok());
  ASSERT_TRUE(remember_pull(folder_, plain, "tiny").ok());
  EXPECT_EQ(text(), "own/tiny\ttiny\nown/many:sub/a.pth\ta\n") << "what is known is not written again";
  ASSERT_TRUE(remember_pull(folder_, plain, "other").ok());
  const auto names = pulled_names(folder_);
  EXPECT_EQ(names.size(), 2u);
  EXPECT_EQ(names.at("own/tiny"), "other");
  EXPECT_EQ(names.at("own/many:sub/a.pth"), "a");
}

TEST_F(PulledNames, AFileThatIsNoneIsNoHarm) {
  std::ofstream(folder_ / ".pulled") << "no tab here\n\n\tx\nown/tiny\ttiny" << std::string(2 << 20, 'x');
  EXPECT_EQ(pulled_names(folder_).count("own/tiny"), 0u) << "beyond the bound";
  EXPECT_FALSE(remember_pull(folder_ / "none", {"own", "tiny", ""}, "tiny").ok());
}

}  // namespace
}  // namespace fulmar
