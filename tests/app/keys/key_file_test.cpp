// Changes of the file of keys by several at once.
#include "app/keys/key_file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fulmar
