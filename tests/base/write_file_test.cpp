// What is written, and what is said where nothing can be.
#include "base/write_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "base/read_file.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class WriteFile : public testing::Test {
 protected:
  WriteFile() : folder_(fs::path(testing::TempDir()) / ("write_file." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~WriteFile() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string content(const fs::path& path) const { return read_if_there(path, 100); }

  const fs::path folder_;
};

void expect_refused(const Status& status, const fs::path& path, const std::string& reason,
                    ErrorKind kind = ErrorKind::io) {
  ASSERT_FALSE(status.ok()) << path << ": " << reason;
  EXPECT_EQ(status.error().kind, kind);
  EXPECT_THAT(status.error().text,
              AllOf(HasSubstr("'" + path.string() + "' cannot be written"), HasSubstr(reason)));
}

TEST_F(WriteFile, AFileIsReplacedOrContinued) {
  const fs::path path = folder_ / "file";
  EXPECT_TRUE(write_file(path, "a longer text").ok());
  EXPECT_TRUE(write_file(path, "text").ok());
  EXPECT_TRUE(append_to_file(path, ", more").ok());
  EXPECT_EQ(content(path), "text, more");
  EXPECT_TRUE(write_whole_file(path, "whole").ok());
  EXPECT_EQ(content(path), "whole");
  EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, TheReasonIsTheSystems) {
  const std::vector<std::pair<fs::path, std::string>> cases = {{folder_ / "none" / "x", "No such file"},
                                                               {"/dev/null/x", "Not a directory"},
                                                               {folder_, "Is a directory"}};
  for (const auto& [path, reason] : cases) {
    expect_refused(write_file(path, "x"), path, reason);
    expect_refused(append_to_file(path, "x"), path, reason);
    expect_refused(check_writable(path), path, reason);
    expect_refused(write_whole_file(path, "x"), path, reason);
    expect_refused(check_replaceable(path), path, reason);
  }
  expect_refused(write_file("/dev/full", "x"), "/dev/full", "No space left", ErrorKind::resource);
  expect_refused(write_file("", "x"), "", "No such file");
  EXPECT_EQ(files(), 0u);
}

TEST_F(WriteFile, APipeThatNobodyReadsIsNotWaitedFor) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(write_file(pipe, "x"), pipe, "No such device");
  expect_refused(check_writable(pipe), pipe, "No such device");
}

TEST_F(WriteFile, ACheckChangesNothing) {
  const fs::path fresh = folder_ / "fresh", old = folder_ / "old";
  ASSERT_TRUE(write_file(old, "kept").ok());
  for (const fs::path& path : {fresh, old}) {
    EXPECT_TRUE(check_writable(path).ok());
    EXPECT_TRUE(check_replaceable(path).ok());
  }
  EXPECT_EQ(content(old), "kept");
  EXPECT_EQ(files(), 1u);
}

TEST_F(WriteFile, AWriterThatFailsLeavesTheOldFile) {
  const fs::path path = folder_ / "file";
  ASSERT_TRUE(write_file(path, "kept").ok());
  const Status status = write_whole_file(path, [](std::ostream& file) { file.setstate(std::ios::badbit); });
  expect_refused(status, path, "");
  EXPECT_EQ(content(path), "kept");
  EXPECT_EQ(files(), 1u);
}

// Writers do other things between and after their writes, such as drawing a bar of progress.
TEST_F(WriteFile, TheReasonIsThatOfTheWriteThatFailed) {
  constexpr size_t kMost = 100'000;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{kMost, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::vector<Status> done;
  for (const size_t piece : {size_t{1}, size_t{1000}, 2 * kMost}) {
    done.push_back(write_whole_file(folder_ / "file", [&](std::ostream& file) {
      const std::string text(piece, 'x');
      for (size_t written = 0; written < 2 * kMost; written += piece) {
        file.write(text.data(), static_cast<std::streamsize>(piece));
        errno = ENOTTY;
      }
      file.flush();
      errno = ENOTTY;
    }));
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  for (const Status& status : done) expect_refused(status, folder_ / "file", "File too large");
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace fulmar
