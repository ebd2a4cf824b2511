// A mapped file that loses its bytes: a load fails, a program that uses it ends, and both name the file.
#include "files/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/exit_codes.h"

namespace fulmar::test {
namespace {

constexpr size_t kPages = 8;

class MappedFiles : public testing::Test {
 protected:
  void SetUp() override {
    page_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    path_ = std::filesystem::path(testing::TempDir()) / ("mapped_" + std::to_string(::getpid()) + ".bin");
    std::ofstream(path_, std::ios::binary) << std::string(kPages * page_, 'x');
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void shorten() const { std::filesystem::resize_file(path_, page_); }
  // The last byte, which is gone once the file is shortened.
  static std::byte last(const std::shared_ptr<const MappedFile>& file) {
    return *const_cast<const volatile std::byte*>(&file->bytes().back());
  }

  size_t page_ = 0;
  std::filesystem::path path_;
};

TEST_F(MappedFiles, ALoadFromAFileThatIsShortenedFails) {
  const Status loaded = watched([&]() -> Status {
    FULMAR_ASSIGN(const auto file, MappedFile::open(path_));
    EXPECT_EQ(last(file), std::byte{'x'});
    shorten();
    EXPECT_EQ(last(file), std::byte{0});
    EXPECT_EQ(file->bytes().front(), std::byte{'x'});
    return {};
  });
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::io);
  EXPECT_NE(loaded.error().text.find(path_.string()), std::string::npos) << loaded.error().text;
}

TEST_F(MappedFiles, ALoadFromOneThatIsKeptOpenFailsToo) {
  std::shared_ptr<const MappedFile> kept;
  const Status loaded = watched([&]() -> Status {
    FULMAR_ASSIGN(kept, MappedFile::open(path_));
    shorten();
    last(kept);
    return {};
  });
  EXPECT_FALSE(loaded.ok());
}

TEST_F(MappedFiles, ALoadFromAWholeFileIsFine) {
  const Status loaded = watched([&]() -> Status {
    FULMAR_ASSIGN(const auto file, MappedFile::open(path_));
    last(file);
    return {};
  });
  EXPECT_TRUE(loaded.ok());
  EXPECT_TRUE(watched([]() -> Status { return {}; }).ok());
}

TEST_F(MappedFiles, OneThatIsUsedEndsTheProcessByName) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto use = [&] {
    const auto file = watched([&] { return MappedFile::open(path_); });
    shorten();
    last(*file);
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(kFileLostExit), "mapped_.*bin was shortened");
}

TEST_F(MappedFiles, AnotherFileOfTheProcessIsNotBlamed) {
  const auto other = MappedFile::open(path_);
  ASSERT_TRUE(other.ok());
  const auto copy = path_.string() + ".copy";
  std::filesystem::copy_file(path_, copy);
  const Status loaded = watched([&]() -> Status {
    FULMAR_ASSIGN(const auto file, MappedFile::open(copy));
    std::filesystem::resize_file(copy, page_);
    last(file);
    return {};
  });
  std::filesystem::remove(copy);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().text.find(copy), std::string::npos);
  EXPECT_EQ(last(*other), std::byte{'x'});
}

}  // namespace
}  // namespace fulmar::test
