// Uploaded states: a folder changes when a file is kept, and not before.
#include "app/serve/state_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "files/checkpoint.h"
#include "files/identify.h"
#include "support/folders.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class StateFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const auto checkpoint = open_checkpoint(models_ / "fulmar-demo.safetensors");
    ASSERT_TRUE(checkpoint.ok());
    const auto config = identify(**checkpoint);
    ASSERT_TRUE(config.ok());
    config_ = *config;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Files of the folder by name, and their texts.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) files[entry.path().filename().string()] = text_of(entry.path());
    }
    return files;
  }

  const fs::path models_ = support::source_folder() / "models";
  const fs::path folder_ = fs::temp_directory_path() / ("fulmar-states-" + std::to_string(::getpid()));
  const std::string content_ = text_of(models_ / "fulmar-demo-pirate.state.pth");
  ModelConfig config_;
};

TEST_F(StateFolders, AFileThatIsNotKeptLeavesNoTrace) {
  StateFolder folder(folder_);
  {
    auto first = folder.take_in("", "one.pth", content_, config_);
    ASSERT_TRUE(first.ok()) << first.error().text;
    ASSERT_TRUE(folder.keep(*first).ok());
  }
  const auto before = files();
  ASSERT_EQ(before.size(), 1u);
  const std::string longer = content_ + std::string(100, '\0');  // another file, if it can be read
  for (const std::string& content : {content_, longer, content_.substr(0, 1000), std::string()}) {
    for (const char* name : {"one.pth", "two.pth", "one.st", "../one.pth"}) {
      (void)folder.take_in("", name, content, config_);  // and let go
      EXPECT_EQ(files(), before) << name;
      EXPECT_EQ(folder.list().size(), 1u);
    }
  }
}

TEST_F(StateFolders, TheOldFileStaysWhereTheNewOneCannotTakeItsPlace) {
  StateFolder folder(folder_);
  auto first = folder.take_in("", "one.pth", content_, config_);
  ASSERT_TRUE(first.ok() && folder.keep(*first).ok());
  auto second = folder.take_in("", "one.pth", content_, config_);
  ASSERT_TRUE(second.ok());
  fs::rename(folder_ / "one.pth", folder_ / "aside");
  fs::create_directories(folder_ / "one.pth" / "in the way");
  EXPECT_FALSE(folder.keep(*second).ok());
  EXPECT_EQ(folder.list().size(), 1u) << "the first one is listed still";
  EXPECT_EQ(files().at("aside"), content_);
}

TEST_F(StateFolders, AFileThatCannotBeRemovedIsListedStill) {
  StateFolder folder(folder_);
  auto first = folder.take_in("", "one.pth", content_, config_);
  ASSERT_TRUE(first.ok() && folder.keep(*first).ok());
  fs::rename(folder_ / "one.pth", folder_ / "aside");
  fs::create_directories(folder_ / "one.pth" / "in the way");
  EXPECT_FALSE(folder.drop("", "one").ok());
  EXPECT_EQ(folder.list().size(), 1u);
}

TEST_F(StateFolders, AFolderThatCannotBeListedIsNotTakenForAnEmptyOne) {
  EXPECT_TRUE(StateFolder(folder_).listed().ok());
  EXPECT_TRUE(StateFolder(folder_ / "to be made").listed().ok());
  EXPECT_TRUE(StateFolder(fs::path()).listed().ok());
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_FALSE(StateFolder(folder_ / "file").listed().ok());
  fs::rename(folder_ / "file", folder_ / "@alice");
  EXPECT_FALSE(StateFolder(folder_).listed().ok()) << "nor that of a key";
}

// Several servers at random: whoever looks has what all of them together have done, in whatever order.
TEST_F(StateFolders, EachServerSeesWhatTheOthersDid) {
  StateFolder servers[] = {StateFolder(folder_), StateFolder(folder_), StateFolder(folder_)};
  const std::string owners[] = {"", "alice", "bob"}, names[] = {"one.pth", "two.pth"};
  std::set<std::pair<std::string, std::string>> wanted;  // owner, id
  std::mt19937 random(1);
  for (int step = 0; step < 200; ++step) {
    StateFolder& server = servers[random() % 3];
    const std::string &owner = owners[random() % 3], &name = names[random() % 2], id = name.substr(0, 3);
    // As the server does before it acts on a state that a client names.
    if (server.changed(owner)) {
      ASSERT_TRUE(server.list_again().ok());
    }
    if (random() % 3 > 0) {
      auto incoming = server.take_in(owner, name, content_, config_);
      ASSERT_TRUE(incoming.ok() && server.keep(*incoming).ok());
      wanted.emplace(owner, id);
    } else {
      const auto gone = server.drop(owner, id);
      ASSERT_TRUE(gone.ok());
      EXPECT_EQ(*gone, wanted.erase({owner, id}) == 1) << owner << " " << id;
    }
    StateFolder& other = servers[random() % 3];
    const std::string& asking = owners[random() % 3];
    if (other.changed(asking)) {
      ASSERT_TRUE(other.list_again().ok());
    }
    for (const std::string& whose : {std::string(), asking}) {
      std::set<std::pair<std::string, std::string>> listed, kept;
      for (const StateFile& file : other.list()) {
        if (file.owner == whose) listed.emplace(file.owner, file.id);
      }
      for (const auto& one : wanted) {
        if (one.first == whose) kept.insert(one);
      }
      EXPECT_EQ(listed, kept) << "step " << step << " of '" << whose << "'";
    }
  }
}

TEST_F(StateFolders, WhatAServerDidItselfIsNoChangeToIt) {
  StateFolder mine(folder_), other(folder_);
  for (const std::string owner : {"", "alice"}) {
    auto incoming = mine.take_in(owner, "one.pth", content_, config_);
    ASSERT_TRUE(incoming.ok() && mine.keep(*incoming).ok());
  }
  EXPECT_TRUE(other.changed("")) << "to another it is";
  EXPECT_TRUE(other.changed("alice"));
  ASSERT_TRUE(mine.drop("", "one").ok());
  EXPECT_FALSE(mine.changed(""));
}

TEST_F(StateFolders, WhatHasOtherContentIsFreshAndWhatIsAsBeforeIsNot) {
  StateFolder mine(folder_), other(folder_);
  auto incoming = other.take_in("", "one.pth", content_, config_);
  ASSERT_TRUE(incoming.ok() && other.keep(*incoming).ok());
  ASSERT_TRUE(mine.changed(""));
  EXPECT_EQ(mine.list_again()->fresh.size(), 1u);
  EXPECT_TRUE(mine.list_again()->fresh.empty());
  fs::last_write_time(folder_ / "one.pth", fs::file_time_type::clock::now() + std::chrono::hours(1));
  const auto changes = mine.list_again();
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(changes->fresh.size(), 1u);
  EXPECT_EQ(changes->gone.size(), 1u) << "the file that it takes the place of";
  fs::last_write_time(folder_, fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(mine.list_again().ok());
  EXPECT_FALSE(mine.changed("")) << "a folder that rests is not read again";
}

TEST_F(StateFolders, AnEqualIdIsReplacedByOneListedOnce) {
  StateFolder folder(folder_);
  for (int i = 0; i < 2; ++i) {
    auto incoming = folder.take_in("", "one.pth", content_, config_);
    ASSERT_TRUE(incoming.ok() && folder.keep(*incoming).ok());
    EXPECT_EQ(folder.list().size(), 1u);
    EXPECT_EQ(files().size(), 1u);
  }
  EXPECT_TRUE(*folder.drop("", "one"));
  EXPECT_FALSE(*folder.drop("", "one"));
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace fulmar
