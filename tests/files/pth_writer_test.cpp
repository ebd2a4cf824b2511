// What write_pth writes, read_pth reads; tests/app/convert/quantize_test.py opens it with Python's own
// zipfile and pickle.
#include "files/pth_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "files/file_builders.h"
#include "files/pth.h"
#include "files/zip.h"
#include "files/zip_writer.h"

namespace fulmar {
namespace {

using namespace test;
using testing::HasSubstr;

const float kSix[] = {1, -2, 3, -4, 5, 6};

std::string written(const std::vector<StoredTensor>& tensors) {
  const TempFile file("", ".pth");
  const Status status = write_pth(file.path(), tensors);
  EXPECT_TRUE(status.ok()) << status.error().text;
  return read_file(file.path());
}

TEST(PthWriter, TensorsComeBackInTheirOrderAndType) {
  const std::vector<StoredTensor> tensors = {tensor_over("blocks.0.att.w0", DType::f32, {1, 1, 6}, kSix),
                                             tensor_over("emb.weight", DType::bf16, {3, 4}, kSix),
                                             tensor_over("step", DType::i64, {}, kSix)};
  const std::string file = written(tensors);
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  ASSERT_EQ(parts->tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); i++) {
    EXPECT_EQ(parts->tensors[i].name, tensors[i].name);
    EXPECT_EQ(parts->tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(parts->tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(gather_contiguous(parts->tensors[i]), gather_contiguous(tensors[i]));
    EXPECT_EQ((parts->tensors[i].data - bytes_of(file).data()) % 64, 0) << "a mapped file is used in place";
  }
}

TEST(PthWriter, StridesAreMadePlain) {
  StoredTensor turned = tensor_over("t", DType::f32, {3, 2}, kSix);
  turned.strides = {1, 3};
  const std::string file = written({turned});
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  EXPECT_TRUE(parts->tensors[0].contiguous());
  EXPECT_EQ(gather_contiguous(parts->tensors[0]), gather_contiguous(turned));
}

TEST(PthWriter, TypesThatPyTorchLacksBecomeHalves) {
  std::vector<std::byte> block(34);  // q8_0: a scale of 1 and 32 codes
  block[1] = std::byte{0x3c};
  for (size_t i = 0; i < 32; i++) block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(i) - 16);
  const std::string file = written({tensor_over("m", DType::q8_0, {1, 32}, block.data())});
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  EXPECT_EQ(parts->tensors[0].dtype, DType::f16);
  std::vector<float> values(32);
  copy_as_f32(parts->tensors[0], values);
  for (size_t i = 0; i < values.size(); i++) EXPECT_EQ(values[i], static_cast<float>(i) - 16) << i;
}

TEST(PthWriter, WhatCannotBeWrittenLeavesNothing) {
  const Status none = write_pth("/nonexistent/x.pth", std::vector<StoredTensor>());
  EXPECT_THAT(none.error().text, HasSubstr("no tensors to write"));
  const Status nowhere =
      write_pth("/nonexistent/x.pth", std::vector{tensor_over("t", DType::f32, {6}, kSix)});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().text, HasSubstr("'/nonexistent/x.pth' cannot be written"));
}

TEST(ZipWriter, Zip64RecordsGiveTheSameMembers) {
  for (const uint64_t least_zip64 : {uint64_t{UINT32_MAX}, uint64_t{100}, uint64_t{1}}) {
    std::ostringstream out;
    ZipWriter writer(out, least_zip64);
    const std::string small = "twelve bytes", large(300, 'x');
    writer.add("a/small", bytes_of(small));
    writer.add("a/large", bytes_of(large));
    writer.add("a/empty", {});
    writer.finish();
    const std::string archive = out.str();
    const auto members = read_zip_directory(bytes_of(archive));
    ASSERT_TRUE(members.ok()) << members.error().text;
    ASSERT_EQ(members->size(), 3u);
    EXPECT_EQ(archive.substr((*members)[0].offset, (*members)[0].size), small);
    EXPECT_EQ(archive.substr((*members)[1].offset, (*members)[1].size), large);
    EXPECT_EQ((*members)[1].name, "a/large");
    EXPECT_EQ((*members)[2].size, 0u);
  }
}

}  // namespace
}  // namespace fulmar
