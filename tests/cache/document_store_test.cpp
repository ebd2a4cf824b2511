// Documents in a file and in memory.
#include "cache/document_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

class Documents : public testing::Test {
 protected:
  Documents()
      : folder_(fs::path(testing::TempDir()) /
                ("fulmar_documents_" + std::to_string(::getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~Documents() override { fs::remove_all(folder_); }
  fs::path file() const { return folder_ / "d.db"; }

 private:
  const fs::path folder_;
};

std::unique_ptr<DocumentStore> open(const fs::path& path) {
  auto store = open_document_store(path);
  EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().text);
  return store.ok() ? std::move(*store) : nullptr;
}

TEST_F(Documents, OutliveTheProcessThatStoredThem) {
  const std::string odd("a\0b\xff", 4);
  {
    const auto store = open(file());
    ASSERT_TRUE(store->put({"1", "model", 100, odd}).ok());
    ASSERT_TRUE(store->put({"2", "model", 200, "two"}).ok());
    ASSERT_TRUE(store->put({"2", "other", 300, "second two"}).ok());
  }
  const auto store = open(file());
  const auto first = store->find("1");
  ASSERT_TRUE(first.ok() && *first);
  EXPECT_EQ((*first)->text, odd);
  EXPECT_EQ((*first)->created, 100);
  EXPECT_EQ((*store->find("2"))->owner, "other");
  EXPECT_EQ((*store->find("2"))->text, "second two");
  EXPECT_FALSE(*store->find("3"));
  EXPECT_EQ((*store->take("1"))->owner, "model");
  EXPECT_FALSE(*store->find("1"));
  EXPECT_FALSE(*store->take("1"));
}

TEST_F(Documents, OfOneOwnerComeInTheirOrder) {
  const auto store = open({});
  for (const Document& document : {Document{"b", "one", 200, "B"},
                                   {"a", "one", 300, "A"},
                                   {"c", "two", 100, "C"},
                                   {"d", "one", 100, "D"}}) {
    ASSERT_TRUE(store->put(document).ok());
  }
  const auto documents = store->of_owner("one");
  ASSERT_TRUE(documents.ok());
  std::string texts;
  for (const Document& document : *documents) texts += document.text;
  EXPECT_EQ(texts, "DBA");
  EXPECT_TRUE(store->of_owner("none")->empty());
}

TEST_F(Documents, TheOldAndTheOldestBeyondABoundGo) {
  const auto store = open({});
  for (int64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(store->put({std::to_string(i), "m", 100 + i, std::string(10, 'x')}).ok());
  }
  const auto old = store->take_surplus(101, 1000);
  ASSERT_TRUE(old.ok()) << old.error().text;
  ASSERT_EQ(old->size(), 1u);
  EXPECT_EQ(old->front().id, "0");
  const auto surplus = store->take_surplus(0, 25);
  ASSERT_EQ(surplus->size(), 2u);
  EXPECT_EQ((*surplus)[0].id, "1");
  EXPECT_EQ((*surplus)[1].id, "2");
  EXPECT_TRUE(*store->find("3"));
  EXPECT_TRUE(store->take_surplus(0, 25)->empty());
}

TEST_F(Documents, TheirBytesAreKnownThroughAllThatHappensToThem) {
  {
    const auto store = open(file());
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(store->put({id, "m", 1, std::string(10, 'x')}).ok());
    ASSERT_TRUE(store->put({"a", "m", 1, "xx"}).ok());
    ASSERT_TRUE(store->take("b").ok());
    EXPECT_TRUE(store->take_surplus(0, 12)->empty());
  }
  const auto store = open(file());
  EXPECT_TRUE(store->take_surplus(0, 12)->empty());
  EXPECT_EQ(store->take_surplus(0, 11)->size(), 1u);
}

// Made by the hour for a day and more, whatever the wall clock says: each goes in its time.
TEST_F(Documents, AClockThatJumpsErasesNothing) {
  constexpr int64_t kHour = 3600, kYear = 365 * 24 * kHour, kLifetime = 24 * kHour;
  double wall = 1.8e9, passing = 7;
  const DocumentOptions options{.lifetime = kLifetime,
                                .clocks = {.wall = [&] { return wall; }, .passing = [&] { return passing; }}};
  const auto reopened = [&] {
    auto store = open_document_store(file(), options);
    EXPECT_TRUE(store.ok());
    return std::move(*store);
  };
  int64_t made = 0;
  for (const int64_t jump :
       {int64_t{0}, kHour, -kHour, -400 * 24 * kHour, 48 * kHour, 20 * kYear, -20 * kYear}) {
    auto store = reopened();
    ASSERT_TRUE(store->put({std::to_string(made++), "m", store->now(), "x"}).ok());
    wall += static_cast<double>(jump);
    EXPECT_TRUE(store->take_surplus(store->now() - kLifetime, 1000)->empty()) << jump;
    store.reset();
    store = reopened();
    EXPECT_TRUE(store->take_surplus(store->now() - kLifetime, 1000)->empty()) << jump;
    wall += kHour;
    passing += kHour;
  }
  const auto store = reopened();
  passing += 25 * kHour;
  EXPECT_EQ(store->take_surplus(store->now() - kLifetime, 1000)->size(), static_cast<size_t>(made));
}

TEST_F(Documents, ANewerSchemaIsRefusedByName) {
  open(file());
  {
    const auto database = open_database(file());
    ASSERT_TRUE(execute(*database, "UPDATE fulmar_meta SET value = 2 WHERE key = 'schema'").ok());
  }
  const auto store = open_document_store(file());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().kind, ErrorKind::unsupported);
}

TEST_F(Documents, TheFileIsForItsOwnerAndOneProcess) {
  const auto store = open(file());
  ASSERT_TRUE(store->put({"1", "m", 1, "x"}).ok());
  for (const auto& entry : fs::directory_iterator(file().parent_path())) {
    struct stat facts {};
    ASSERT_EQ(::stat(entry.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << entry.path();
  }
  EXPECT_FALSE(open_document_store(file()).ok());
  EXPECT_TRUE(*store->find("1"));
}

TEST_F(Documents, AFileOfAnotherKindIsAnErrorAndStays) {
  std::ofstream(file()) << "this is no database, and is longer than the header of one would be: "
                        << std::string(200, '.');
  const auto size = fs::file_size(file());
  const auto store = open_document_store(file());
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().text.find("d.db"), std::string::npos);
  EXPECT_EQ(fs::file_size(file()), size);
  EXPECT_FALSE(open_document_store("/nonexistent/d.db").ok());
}

}  // namespace
}  // namespace fulmar
