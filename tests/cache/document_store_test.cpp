// Documents in a file and in memory.
#include "cache/document_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <tuple>

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

std::string ids_of(const Result<std::vector<Document>>& documents) {
  std::string ids;
  EXPECT_TRUE(documents.ok()) << documents.error().text;
  for (const Document& document : *documents) ids += document.id;
  return ids;
}

TEST_F(Documents, WhatLastsIsToldInItsOrderAndStays) {
  const auto store = open({});
  for (const auto& [id, created, lasting] :
       {std::tuple{"b", 200, true}, {"a", 300, true}, {"c", 100, false}, {"d", 100, true}}) {
    ASSERT_TRUE(
        store->put({.id = id, .owner = "one", .created = created, .text = id, .lasting = lasting}).ok());
  }
  EXPECT_EQ(ids_of(store->take_older(1000)), "c");
  EXPECT_EQ(ids_of(store->take_oldest("one", 1000)), "");
  EXPECT_EQ(ids_of(store->lasting()), "dba");
  ASSERT_TRUE(store->set_mark("b", 7).ok());
  EXPECT_EQ((*store->lasting())[1].mark, 7);
  EXPECT_EQ((*store->find("b"))->text, "b");
}

TEST_F(Documents, TheOldGoAndTheOldestOfOneOwner) {
  const auto store = open({});
  for (int64_t i = 0; i < 6; ++i) {
    const std::string owner = i % 2 == 0 ? "even" : "odd";
    ASSERT_TRUE(store->put({std::to_string(i), owner, 100 + i, std::string(10, 'x')}).ok());
  }
  EXPECT_EQ(ids_of(store->take_older(101)), "0");
  EXPECT_EQ(ids_of(store->take_oldest("odd", 11)), "13") << "no more than hold so much, and no others'";
  EXPECT_EQ(ids_of(store->take_oldest("odd", 100)), "5");
  EXPECT_EQ(ids_of(store->take_oldest("odd", 100)), "");
  EXPECT_TRUE(*store->find("2") && *store->find("4"));
}

TEST_F(Documents, TheirBytesAreKnownThroughAllThatHappensToThem) {
  const auto put = [](DocumentStore& store, const char* id, const char* owner, size_t bytes, bool lasting) {
    Document document{.id = id, .owner = owner, .created = 1, .text = std::string(bytes, 'x')};
    document.lasting = lasting;
    ASSERT_TRUE(store.put(document).ok());
  };
  const auto check = [](DocumentStore& store) {
    EXPECT_EQ(store.bytes_of("m").passing, 2);
    EXPECT_EQ(store.bytes_of("m").lasting, 5);
    EXPECT_EQ(store.bytes_of("n").passing, 10);
    EXPECT_EQ(store.bytes_of("n").lasting, 0);
    EXPECT_EQ(store.bytes(), 17);
  };
  {
    const auto store = open(file());
    for (const char* id : {"a", "b", "c"}) put(*store, id, "m", 10, false);
    put(*store, "j", "m", 5, true);
    put(*store, "a", "m", 2, false);
    put(*store, "c", "n", 10, false);
    ASSERT_TRUE(store->take("b").ok());
    check(*store);
  }
  check(*open(file()));
}

// Longer than the pieces in which texts are written.
TEST_F(Documents, LongTextsComeBackWholeAndLeaveNothing) {
  std::string text;
  for (int i = 0; text.size() < (size_t{3} << 20) + 17; ++i) text += std::to_string(i) + '\0';
  {
    const auto store = open(file());
    ASSERT_TRUE(store->put({"1", "m", 1, std::string(size_t{2} << 20, 'x')}).ok());
    ASSERT_TRUE(store->put({"1", "m", 1, text}).ok());
    ASSERT_TRUE(store->put({"empty", "m", 1, ""}).ok());
    EXPECT_EQ((*store->find("1"))->text, text);
  }
  {
    const auto store = open(file());
    EXPECT_EQ((*store->find("1"))->text, text);
    EXPECT_EQ((*store->find("empty"))->text, "");
    ASSERT_TRUE(store->take("1").ok());
    ASSERT_TRUE(store->take("empty").ok());
  }
  const auto database = open_database(file());
  Statement pieces(*database, "SELECT count(*) FROM fulmar_pieces");
  ASSERT_TRUE(*pieces.next());
  EXPECT_EQ(pieces.column_integer(0), 0);
}

// Of a text that was half written, and of one whose row was gone.
TEST_F(Documents, WhatAKilledProcessLeavesIsRemoved) {
  { ASSERT_TRUE(open(file())->put({"1", "m", 1, "text"}).ok()); }
  {
    const auto database = open_database(file());
    ASSERT_TRUE(execute(*database, "INSERT INTO fulmar_pieces VALUES(77, 0, 'half')").ok());
  }
  {
    const auto store = open(file());
    ASSERT_TRUE(store->put({"2", "m", 1, "other"}).ok());
    EXPECT_EQ((*store->find("1"))->text, "text");
    EXPECT_EQ((*store->find("2"))->text, "other");
  }
  const auto database = open_database(file());
  Statement pieces(*database, "SELECT count(*) FROM fulmar_pieces");
  ASSERT_TRUE(*pieces.next());
  EXPECT_EQ(pieces.column_integer(0), 2);
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
    EXPECT_TRUE(store->take_older(store->now() - kLifetime)->empty()) << jump;
    store.reset();
    store = reopened();
    EXPECT_TRUE(store->take_older(store->now() - kLifetime)->empty()) << jump;
    wall += kHour;
    passing += kHour;
  }
  const auto store = reopened();
  passing += 25 * kHour;
  EXPECT_EQ(store->take_older(store->now() - kLifetime)->size(), static_cast<size_t>(made));
}

TEST_F(Documents, ANewerSchemaIsRefusedByName) {
  open(file());
  {
    const auto database = open_database(file());
    ASSERT_TRUE(execute(*database, "UPDATE fulmar_meta SET value = 3 WHERE key = 'schema'").ok());
  }
  const auto store = open_document_store(file());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().kind, ErrorKind::unsupported);
}

// As the version before wrote them: texts in the table of facts, and the model in the place of the owner.
void make_first_schema(const fs::path& path) {
  const auto database = open_database(path);
  ASSERT_TRUE(
      execute(*database,
              "CREATE TABLE fulmar_documents(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created INTEGER NOT "
              "NULL, text TEXT NOT NULL);"
              "CREATE INDEX fulmar_documents_created ON fulmar_documents(created);"
              "CREATE TABLE fulmar_meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
              "INSERT INTO fulmar_meta VALUES('schema', 1);"
              "INSERT INTO fulmar_documents VALUES('resp_1', 'model', 100, 'answer');"
              "INSERT INTO fulmar_documents VALUES('job:resp_2', 'background', 200, 'job');")
          .ok());
}

// Nothing that lies there is done without: a server that may do without its file does not start.
TEST_F(Documents, AnOlderFileStaysAsItIsWhereNoCopyCanBeMade) {
  make_first_schema(file());
  fs::create_directories(file().string() + ".schema-1/in the way");
  for (int start = 0; start < 2; ++start) {
    const auto store = open_document_store(file());
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.error().kind, ErrorKind::unsupported);
    EXPECT_NE(store.error().text.find("no copy of it can be made"), std::string::npos) << store.error().text;
  }
  fs::remove_all(file().string() + ".schema-1");
  EXPECT_TRUE(*open(file())->find("resp_1"));
}

TEST_F(Documents, AnOlderSchemaIsBroughtUpAndCopied) {
  make_first_schema(file());
  for (int start = 0; start < 2; ++start) {
    const auto store = open(file());
    const auto answer = *store->find("resp_1");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->text, "answer");
    EXPECT_EQ(answer->label, "model");
    EXPECT_EQ(answer->owner, "");
    EXPECT_EQ(answer->created, 100);
    EXPECT_EQ(ids_of(store->lasting()), "job:resp_2");
    EXPECT_EQ((*store->find("job:resp_2"))->text, "job");
    EXPECT_EQ(store->bytes(), 9);
  }
  const auto copy = open_database(file().string() + ".schema-1");
  Statement rows(*copy, "SELECT text FROM fulmar_documents WHERE id = 'resp_1'");
  ASSERT_TRUE(rows.next().ok());
  EXPECT_EQ(rows.column_text(0), "answer");
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

TEST_F(Documents, AFileThatLostItsNameTakesNothingUntilItIsBack) {
  const auto store = open(file());
  ASSERT_TRUE(store->put({"1", "model", 100, "text"}).ok());
  EXPECT_TRUE(store->standing().ok());
  EXPECT_EQ(store->lost(), 0);
  const fs::path away = file().string() + ".away";
  fs::rename(file(), away);
  EXPECT_FALSE(store->standing().ok());
  EXPECT_EQ(store->lost(), 1);
  EXPECT_FALSE(store->put({"2", "model", 100, "text"}).ok());
  EXPECT_FALSE(store->set_mark("1", 5).ok());
  EXPECT_FALSE(store->take("1").ok());
  EXPECT_FALSE(store->take_oldest("model", 1).ok());
  fs::rename(away, file());
  EXPECT_TRUE(store->standing().ok());
  EXPECT_TRUE(store->put({"2", "model", 100, "text"}).ok());
  EXPECT_TRUE(*store->take("1"));
  EXPECT_TRUE(open_document_store({}).value()->standing().ok()) << "in memory";
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
