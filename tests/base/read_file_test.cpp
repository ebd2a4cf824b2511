// What a name may lead to: a file, none, or something that would block or never end.
#include "base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fulmar {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ReadFile : public testing::Test {
 protected:
  ReadFile() : folder_(fs::path(testing::TempDir()) / ("read_file." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ReadFile() override { fs::remove_all(folder_); }

  fs::path file_of(const std::string& content) const {
    std::ofstream(folder_ / "file", std::ios::binary) << content;
    return folder_ / "file";
  }

  const fs::path folder_;
};

void expect_refused(const fs::path& path, ErrorKind kind, const std::string& reason) {
  for (const auto& text : {read_file(path, 100), read_beginning(path, 100)}) {
    ASSERT_FALSE(text.ok()) << path;
    EXPECT_EQ(text.error().kind, kind) << path;
    EXPECT_THAT(text.error().text, AllOf(HasSubstr("'" + path.string() + "'"), HasSubstr(reason)));
  }
}

TEST_F(ReadFile, AFileIsReadUpToItsBound) {
  const std::string content("a\0b\r\n", 5);
  const fs::path path = file_of(content);
  EXPECT_EQ(*read_file(path, 5), content);
  EXPECT_EQ(*read_beginning(path, 5), content);
  EXPECT_EQ(*read_beginning(path, 2), content.substr(0, 2));
  const auto larger = read_file(path, 4);
  ASSERT_FALSE(larger.ok());
  EXPECT_EQ(larger.error().kind, ErrorKind::invalid);
  EXPECT_THAT(larger.error().text, AllOf(HasSubstr(path.string()), HasSubstr("wanted at most 4")));
}

TEST_F(ReadFile, AFileOfManyPiecesComesWhole) {
  std::string content;
  for (int i = 0; i < 100'000; i++) content += std::to_string(i);
  EXPECT_EQ(*read_file(file_of(content), kMostFileBytes), content);
}

TEST_F(ReadFile, AFileWithoutASizeIsReadAllTheSame) {
  EXPECT_FALSE(read_file("/proc/self/status", 1 << 20)->empty());
}

TEST_F(ReadFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  const fs::path pipe = folder_ / "pipe", link = folder_ / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("link", link);
  expect_refused(pipe, ErrorKind::not_found, "no regular file");
  expect_refused("/dev/zero", ErrorKind::not_found, "no regular file");
  expect_refused(folder_, ErrorKind::not_found, "a folder");
  expect_refused(folder_ / "none", ErrorKind::not_found, "No such file");
  expect_refused(file_of("x") / "below", ErrorKind::not_found, "Not a directory");
  expect_refused(link, ErrorKind::io, "symbolic links");
  expect_refused("/proc/self/mem", ErrorKind::io, "Input/output error");
  expect_refused("", ErrorKind::not_found, "No such file");
}

}  // namespace
}  // namespace fulmar
