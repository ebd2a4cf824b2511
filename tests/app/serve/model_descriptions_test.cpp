// What files tell is read once until one of them changes.
#include "app/serve/model_descriptions.h"

#include <gtest/gtest.h>

#include <fstream>

#include "files/repository_writer.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

class Descriptions : public ::testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  int reads_of(const InstalledFiles& files) {
    const int before = reads_;
    const auto facts = descriptions_.of(files, [&]() -> Result<ServedModelPtr> {
      ++reads_;
      return Error{ErrorKind::corrupt, "broken"};
    });
    EXPECT_FALSE(facts.ok());
    return reads_ - before;
  }

  ModelDescriptions descriptions_;
  int reads_ = 0;
};

TEST_F(Descriptions, OfAFileAreReadAgainWhereItChanges) {
  const test::TempFolder folder;
  const InstalledFiles files{.path = folder.path() / "a.pth"};
  write(files.path, "one");
  EXPECT_EQ(reads_of(files), 1);
  EXPECT_EQ(reads_of(files), 0);
  write(files.path, "three");
  EXPECT_EQ(reads_of(files), 1);
  fs::last_write_time(files.path, fs::last_write_time(files.path) - std::chrono::hours(1));
  EXPECT_EQ(reads_of(files), 1);
  InstalledFiles renamed = files;
  renamed.pulled_as = "owner/a";
  EXPECT_EQ(reads_of(renamed), 1);
}

TEST_F(Descriptions, OfAFolderAreReadAgainWhereAFileInItChanges) {
  const test::TempFolder folder;
  const InstalledFiles files{.path = folder.path() / "repository"};
  fs::create_directory(files.path);
  write(files.path / "config.json", "{}");
  EXPECT_EQ(reads_of(files), 1);
  EXPECT_EQ(reads_of(files), 0);
  write(files.path / "config.json", "{ }");
  EXPECT_EQ(reads_of(files), 1);
  write(files.path / "more", "");
  EXPECT_EQ(reads_of(files), 1);
}

}  // namespace
}  // namespace fulmar
