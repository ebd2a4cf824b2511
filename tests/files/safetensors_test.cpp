// safetensors: reading, writing and refusing.
#include "files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/file_builders.h"

namespace fulmar {
namespace {

using namespace test;
using testing::HasSubstr;

std::string error_of(const std::string& file) {
  const Result<CheckpointParts> parts = read_safetensors(bytes_of(file));
  return parts.ok() ? "(no error)" : parts.error().text;
}

TEST(Safetensors, GivesTensorsInTheOrderOfTheirData) {
  const std::string file = safetensors_of(
      R"({"late":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"__metadata__":{"format":"pt"},)"
      R"("early":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[0,5],"data_offsets":[6,6]}})",
      "abcdef");
  ASSERT_TRUE(looks_like_safetensors(bytes_of(file)));
  const Result<CheckpointParts> parts = read_safetensors(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  ASSERT_EQ(parts->tensors.size(), 3u);
  EXPECT_EQ(parts->tensors[0].name, "early");
  EXPECT_EQ(parts->tensors[0].dtype, DType::f16);
  EXPECT_EQ(parts->tensors[1].name, "late");
  EXPECT_EQ(std::to_integer<char>(parts->tensors[1].data[1]), 'f');
  EXPECT_EQ(parts->tensors[2].count(), 0);
  EXPECT_EQ(parts->metadata.at("format"), "pt");
}

TEST(Safetensors, WhatIsWrittenComesBack) {
  const float values[] = {0, 1, 2, 3, 4, 5};
  StoredTensor transposed = tensor_over("blocks.0.\"odd\\ name\"", DType::f32, {3, 2}, values);
  transposed.strides = {1, 3};
  const std::vector<StoredTensor> tensors = {tensor_over("a", DType::bf16, {5}, values), transposed,
                                             tensor_over("scalar", DType::i64, {}, values)};
  const TempFile file("", ".safetensors");
  ASSERT_TRUE(write_safetensors(file.path(), tensors, {{"note", "two\nlines"}}).ok());
  const Result<std::unique_ptr<Checkpoint>> read = open_checkpoint(file.path());
  ASSERT_TRUE(read.ok()) << read.error().text;
  ASSERT_EQ((*read)->tensors().size(), tensors.size());
  for (const StoredTensor& tensor : tensors) {
    const StoredTensor* back = (*read)->find(tensor.name);
    ASSERT_NE(back, nullptr) << tensor.name;
    EXPECT_EQ(back->dtype, tensor.dtype);
    EXPECT_EQ(back->shape, tensor.shape);
    EXPECT_TRUE(back->contiguous());
    EXPECT_EQ(gather_contiguous(*back), gather_contiguous(tensor));
  }
  EXPECT_EQ((*read)->metadata().at("note"), "two\nlines");
}

TEST(Safetensors, WritingIntoNoFolderIsAnError) {
  const float value = 1;
  const Status status = write_safetensors("/nonexistent/folder/x.safetensors",
                                          std::vector{tensor_over("a", DType::f32, {1}, &value)});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::io);
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string file = safetensors_of(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}})",
      "0123456789ab");
  ASSERT_TRUE(read_safetensors(bytes_of(file)).ok());
  for (size_t size = 0; size < file.size(); size++) {
    EXPECT_FALSE(read_safetensors(bytes_of(file).first(size)).ok()) << size;
  }
  EXPECT_FALSE(read_safetensors(bytes_of(file + "x")).ok());
}

TEST(Safetensors, HostileFilesAreRefusedWithTheReason) {
  const auto entry = [](const char* name, const char* type, const char* shape, const char* offsets) {
    return std::string("\"") + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}";
  };
  const auto file = [](const std::string& entries, size_t size = 8) {
    return safetensors_of("{" + entries + "}", std::string(size, 'x'));
  };
  std::string deep;
  for (int i = 0; i < 100'000; i++) deep += '[';
  struct Hostile {
    const char* what;
    std::string file;
    const char* complaint;
  };
  const std::vector<Hostile> table = {
      {"overlap", file(entry("a", "U8", "[5]", "[0,5]") + "," + entry("b", "U8", "[4]", "[4,8]")),
       "begins at 4; wanted 5 (overlap)"},
      {"same place", file(entry("a", "U8", "[8]", "[0,8]") + "," + entry("b", "U8", "[8]", "[0,8]")),
       "(overlap)"},
      {"gap", file(entry("a", "U8", "[3]", "[0,3]") + "," + entry("b", "U8", "[4]", "[4,8]")),
       "begins at 4; wanted 3 (gap)"},
      {"gap in front", file(entry("a", "U8", "[7]", "[1,8]")), "(gap)"},
      {"data left over", file(entry("a", "U8", "[7]", "[0,7]")), "cover 7 bytes of the data; there are 8"},
      {"beyond the end", file(entry("a", "U8", "[9]", "[0,9]")), "are 0 to 9 of 8"},
      {"backwards", file(entry("a", "U8", "[8]", "[8,0]")), "8 to 0"},
      {"wrong size", file(entry("a", "F32", "[3]", "[0,8]")), "needs 12 bytes"},
      {"2^63 elements", file(entry("a", "U8", "[9223372036854775808]", "[0,8]")),
       "wanted an integer from 0 to 2^63-1"},
      {"2^63 by product", file(entry("a", "U8", "[4294967296,4294967296]", "[0,8]")), "impossible shape"},
      {"2^64 bytes", file(entry("a", "F32", "[4611686018427387904]", "[0,0]")), "impossible shape"},
      {"overflow beside a zero", file(entry("a", "U8", "[0,4294967296,4294967296]", "[0,0]")),
       "impossible shape"},
      {"negative size", file(entry("a", "U8", "[-8]", "[0,8]")), "wanted an integer"},
      {"fraction", file(entry("a", "U8", "[8.0]", "[0,8]")), "wanted an integer"},
      {"rank 6", file(entry("a", "U8", "[1,1,1,1,2,4]", "[0,8]")), "more than 5 members"},
      {"three offsets", file(entry("a", "U8", "[8]", "[0,8,8]")), "not two numbers"},
      {"unknown type", file(entry("a", "F8_E5M2", "[8]", "[0,8]")), "type F8_E5M2, which is not supported"},
      {"no shape", file(R"("a":{"dtype":"U8","data_offsets":[0,8]})"), "no list 'shape'"},
      {"no dtype", file(R"("a":{"shape":[8],"data_offsets":[0,8]})"), "no dtype"},
      {"entry is a number", file(R"("a":1)"), "no dtype"},
      {"twice", file(entry("a", "U8", "[4]", "[0,4]") + "," + entry("a", "U8", "[4]", "[4,8]")),
       "'a' comes twice"},
      {"metadata is a list", file(R"("__metadata__":[1])"), "not an object"},
      {"metadata is a number", file(R"("__metadata__":{"x":1})"), "is not text"},
      {"control character in a name", file(entry("a\\u0000", "U8", "[8]", "[0,8]")), "bad tensor name"},
      {"empty", file(""), "holds no tensors"},
      {"deep", safetensors_of("{\"a\":" + deep, ""), "not JSON"},
      {"a list", safetensors_of("[]", ""), "not a JSON object"},
      {"no JSON", safetensors_of("{\"a\":", ""), "not JSON"},
      {"invalid UTF-8", safetensors_of("{\"\xff\":1}", ""), "not JSON"},
      {"huge header", raw<uint64_t>(uint64_t{1} << 63) + "{}", "at most 100000000"},
      {"header beyond the end", raw<uint64_t>(50'000'000) + "{}", "lies outside the file"},
  };
  for (const Hostile& hostile : table)
    EXPECT_THAT(error_of(hostile.file), HasSubstr(hostile.complaint)) << hostile.what;
}

TEST(OpenCheckpoint, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(open_checkpoint("/nonexistent/model.pth").error().kind, ErrorKind::not_found);
  EXPECT_THAT(open_checkpoint("/dev/null").error().text, HasSubstr("not a regular file"));
  EXPECT_THAT(open_checkpoint(TempFile("").path()).error().text, HasSubstr("is empty"));
  const TempFile text("hello\nworld"), gguf("GGUF\3\0\0\0");
  EXPECT_THAT(open_checkpoint(text.path()).error().text,
              testing::AllOf(HasSubstr(text.path().string()), HasSubstr("start with 'hello\\x0awo'")));
  EXPECT_THAT(open_checkpoint(gguf.path()).error().text, HasSubstr("GGUF: the version"));
}

TEST(OpenCheckpoint, ReleasedPagesCanBeReadAgain) {
  const std::vector<float> values(100'000, 1.5f);
  const TempFile file("", ".safetensors");
  ASSERT_TRUE(
      write_safetensors(file.path(), std::vector{tensor_over("a", DType::f32, {100'000}, values.data())})
          .ok());
  const Result<std::unique_ptr<Checkpoint>> checkpoint = open_checkpoint(file.path());
  ASSERT_TRUE(checkpoint.ok());
  const StoredTensor& tensor = *(*checkpoint)->find("a");
  for (int round = 0; round < 2; round++) {
    std::vector<float> read(values.size());
    copy_as_f32(tensor, read);
    EXPECT_EQ(read, values);
    (*checkpoint)->release_pages(tensor);
  }
}

}  // namespace
}  // namespace fulmar
