// Changes of the file of keys by several at once.
#include "app/keys/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "files/repository_writer.h"

namespace fulmar {
namespace {

ApiKey key_named(const std::string& name) { return {.name = name, .hash = hash_of_key(name)}; }

TEST(KeyFile, KeepsTheKeysOfAllWhoAddOneAtOnce) {
  const test::TempFolder folder;
  const auto path = folder.path() / "keys.json";
  constexpr int kAdders = 12;
  std::vector<std::thread> adders;
  for (int i = 0; i < kAdders; ++i) {
    adders.emplace_back([&, i] {
      const Status added = change_api_keys(path, true, [&](std::vector<ApiKey>& keys) -> Status {
        keys.push_back(key_named("k" + std::to_string(i)));
        return {};
      });
      EXPECT_TRUE(added.ok()) << (added.ok() ? "" : added.error().text);
    });
  }
  for (std::thread& adder : adders) adder.join();
  const auto keys = read_api_keys(path);
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->size(), static_cast<size_t>(kAdders));
}

TEST(KeyFile, StaysAsItIsWhereTheChangeFails) {
  const test::TempFolder folder;
  const auto path = folder.path() / "keys.json";
  EXPECT_FALSE(change_api_keys(path, false, [](std::vector<ApiKey>&) { return Status(); }).ok());
  ASSERT_TRUE(write_api_keys(path, {key_named("a")}).ok());
  const Status changed = change_api_keys(path, true, [](std::vector<ApiKey>& keys) -> Status {
    keys.clear();
    return Error{ErrorKind::conflict, "no"};
  });
  EXPECT_EQ(changed.error().text, "no");
  EXPECT_EQ(read_api_keys(path)->size(), 1u);
}

Status add_key(const std::filesystem::path& path, const std::string& name) {
  return change_api_keys(path, true, [&](std::vector<ApiKey>& keys) -> Status {
    keys.push_back(key_named(name));
    return {};
  });
}

// The server reads the file as another user than the one who changes it.
TEST(KeyFile, KeepsTheOwnerTheModeAndTheLinkThroughWhichItIsNamed) {
  const test::TempFolder folder;
  const auto path = folder.path() / "keys.json", link = folder.path() / "link.json";
  std::filesystem::create_directory(folder.path() / "far");
  const auto far = folder.path() / "far" / "keys.json";
  ASSERT_TRUE(add_key(far, "a").ok());
  ASSERT_EQ(::chmod(far.c_str(), 0640), 0);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::chown(far.c_str(), 12345, 12346), 0);
  }
  std::filesystem::create_symlink("far/keys.json", link);
  std::filesystem::create_symlink(link, path);
  ASSERT_TRUE(add_key(path, "b").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path) && std::filesystem::is_symlink(link));
  EXPECT_EQ(read_api_keys(far)->size(), 2u);
  for (const std::string& name : {far.string(), far.string() + ".lock"}) {
    struct stat found {};
    ASSERT_EQ(::stat(name.c_str(), &found), 0) << name;
    EXPECT_EQ(found.st_uid, root ? 12345u : ::geteuid()) << name;
    if (name == far) {
      EXPECT_EQ(found.st_mode & 07777, 0640u);
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
}

TEST(KeyFile, ALinkToNothingLeadsToTheNewFile) {
  const test::TempFolder folder;
  const auto link = folder.path() / "keys.json";
  std::filesystem::create_symlink("made.json", link);
  ASSERT_TRUE(add_key(link, "a").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat made {};
  ASSERT_EQ(::stat((folder.path() / "made.json").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600u);
}

}  // namespace
}  // namespace fulmar
