// Whatever file a store is told to use, it takes its own and new ones alone, and leaves the others as they
// are.
#include "cache/database_kind.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "cache/document_store.h"
#include "cache/sqlite_store.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Kind {
  const char* words;
  DatabaseKind kind;
  std::function<Status(const fs::path&)> open;  // and close
};

template <class Store>
Status status_of(const Result<Store>& opened) {
  return opened.ok() ? Status() : Status(opened.error());
}

const Kind kKinds[] = {
    {"a database of sessions", DatabaseKind::sessions,
     [](const fs::path& path) { return status_of(open_sqlite_store(path)); }},
    {"a database of responses", DatabaseKind::responses,
     [](const fs::path& path) { return status_of(open_document_store(path)); }},
};

class DatabaseKinds : public testing::Test {
 protected:
  DatabaseKinds()
      : folder_(fs::path(testing::TempDir()) /
                ("fulmar_kinds_" + std::to_string(::getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~DatabaseKinds() override { fs::remove_all(folder_); }
  fs::path file(const std::string& name) const { return folder_ / name; }

 private:
  const fs::path folder_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void make(const fs::path& path, const std::string& sql) {
  const auto database = open_database(path);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(execute(*database, sql.c_str()).ok());
}

void expect_refused(const Kind& wanted, const fs::path& path, const std::string& found) {
  const std::string before = bytes_of(path);
  const Status opened = wanted.open(path);
  ASSERT_FALSE(opened.ok()) << wanted.words << " took " << found;
  EXPECT_EQ(opened.error().kind, ErrorKind::unsupported) << opened.error().text;
  for (const std::string& word : {path.string(), found, std::string("wanted ") + wanted.words}) {
    EXPECT_THAT(opened.error().text, HasSubstr(word));
  }
  EXPECT_EQ(bytes_of(path), before) << wanted.words << " changed " << found;
}

TEST_F(DatabaseKinds, NoneTakesAnothersFileAndEachItsOwn) {
  for (const Kind& made : kKinds) {
    const fs::path path = file(std::to_string(static_cast<int>(made.kind)));
    ASSERT_TRUE(made.open(path).ok());
    for (const Kind& wanted : kKinds) {
      if (wanted.kind != made.kind) expect_refused(wanted, path, made.words);
    }
    EXPECT_TRUE(made.open(path).ok()) << made.words;
  }
}

TEST_F(DatabaseKinds, AnEmptyFileIsNew) {
  for (const Kind& wanted : kKinds) {
    const fs::path path = file(std::to_string(static_cast<int>(wanted.kind)));
    std::ofstream(path).flush();
    EXPECT_TRUE(wanted.open(path).ok()) << wanted.words;
  }
}

TEST_F(DatabaseKinds, AnotherProgramsDatabaseIsNobodys) {
  make(file("other"), "CREATE TABLE cookies(name TEXT); INSERT INTO cookies VALUES('x')");
  for (const Kind& wanted : kKinds) expect_refused(wanted, file("other"), "'cookies'");
}

// What was mixed once is taken by none, instead of by whoever comes first.
TEST_F(DatabaseKinds, AFileOfTwoKindsIsNobodys) {
  make(file("both"), "CREATE TABLE fulmar_sessions(id TEXT); CREATE TABLE fulmar_documents(id TEXT)");
  for (const Kind& wanted : kKinds) expect_refused(wanted, file("both"), "is a database of ");
}

TEST_F(DatabaseKinds, ANewerFileStaysAsItIs) {
  for (const Kind& made : kKinds) {
    const fs::path path = file(std::to_string(static_cast<int>(made.kind)));
    ASSERT_TRUE(made.open(path).ok());
    make(path,
         "UPDATE fulmar_meta SET value = 99 WHERE key = 'schema'; DELETE FROM fulmar_meta WHERE key <> "
         "'schema'");
    const std::string before = bytes_of(path);
    EXPECT_FALSE(made.open(path).ok());
    EXPECT_EQ(bytes_of(path), before) << made.words;
  }
}

}  // namespace
}  // namespace fulmar
