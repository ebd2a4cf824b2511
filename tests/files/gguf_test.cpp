// The GGUF container and the names in it: hostile files one by one, stored models against the golden files.
#include "files/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "files/gguf_model.h"
#include "files/gguf_names.h"
#include "files/identify.h"
#include "support/golden.h"

namespace fulmar {
namespace {

using support::Json;
using testing::HasSubstr;

TEST(Gguf, EveryHostileContainerGetsItsAnswer) {
  const Json golden = support::read_golden("gguf-hostile");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  ASSERT_EQ(golden["cases"].size(), 55u);
  for (const Json& one : golden["cases"]) {
    const std::vector<std::byte> bytes = support::from_base64(one["base64"].get<std::string>());
    const Result<GgufFile> read = read_gguf(bytes);
    const std::string wanted = one["load"];
    if (wanted == "accept") {
      EXPECT_TRUE(read.ok()) << one["name"] << ": " << (read.ok() ? "" : read.error().text);
    } else if (wanted == "refuse") {
      EXPECT_FALSE(read.ok()) << one["name"];
    }
    if (!read.ok()) {
      EXPECT_FALSE(read.error().text.empty()) << one["name"];
    }
  }
}

// A container in the making: little-endian fields behind each other.
class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
    return *this;
  }
  Writer& text(std::string_view text) {
    put<uint64_t>(text.size());
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), raw, raw + text.size());
    return *this;
  }
  Writer& head(uint64_t tensors, uint64_t keys) {
    bytes_ = {std::byte{'G'}, std::byte{'G'}, std::byte{'U'}, std::byte{'F'}};
    return put<uint32_t>(3).put<uint64_t>(tensors).put<uint64_t>(keys);
  }
  Writer& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).put<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  Writer& data(size_t bytes) {
    while (bytes_.size() % 32 != 0) put<uint8_t>(0);
    bytes_.resize(bytes_.size() + bytes, std::byte{0});
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

TEST(Gguf, ValuesOfEveryTypeAreRead) {
  Writer writer;
  writer.head(0, 5);
  writer.text("a").put<uint32_t>(0).put<uint8_t>(200);
  writer.text("b").put<uint32_t>(11).put<int64_t>(-5);
  writer.text("c").put<uint32_t>(6).put<float>(0.5f);
  writer.text("d").put<uint32_t>(8).text("words");
  writer.text("e").put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(2).text("x").text("");
  const Result<GgufFile> file = read_gguf(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.error().text;
  EXPECT_EQ(file->integer("a"), 200);
  EXPECT_EQ(file->integer("b"), -5);
  EXPECT_EQ(file->number("c"), 0.5);
  EXPECT_EQ(file->text("d"), "words");
  ASSERT_NE(file->array("e"), nullptr);
  EXPECT_THAT(strings_of(*file->array("e")), testing::ElementsAre("x", ""));
  EXPECT_FALSE(file->integer("d"));
  EXPECT_FALSE(file->text("missing"));
}

TEST(Gguf, ShapesAreOutermostFirstAndDataIsWhereTheOffsetSays) {
  Writer writer;
  writer.head(2, 0);
  writer.tensor("one", {32, 3}, 8, 0).tensor("two", {2}, 0, 128).data(128 + 8);
  const Result<GgufFile> file = read_gguf(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.error().text;
  EXPECT_EQ(file->tensors[0].dtype, DType::q8_0);
  EXPECT_THAT(file->tensors[0].shape, testing::ElementsAre(3, 32));
  EXPECT_EQ(file->tensors[0].bytes(), 3u * 34);
  EXPECT_EQ(file->tensors[1].data - file->tensors[0].data, 128);
}

TEST(Gguf, ACutFileSaysWhatIsMissing) {
  Writer writer;
  writer.head(1, 0);
  writer.tensor("blk.0.output", {32, 4}, 0, 0).data(500);
  const Result<GgufFile> file = read_gguf(writer.bytes());
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().text,
              testing::AllOf(HasSubstr("'blk.0.output'"), HasSubstr("12 bytes are missing")));
}

TEST(Gguf, TokenTextsAreUnescaped) {
  EXPECT_EQ(unescape_token(R"(a\n\t\r\\\x00\xe4b)"), std::string("a\n\t\r\\\0\xe4"
                                                                 "b",
                                                                 8));
  EXPECT_EQ(unescape_token(R"(\'\q\x0)"), "'qx0");
  EXPECT_EQ(unescape_token("\\"), "\\");
  std::string all;
  for (int i = 0; i < 256; i++) all += static_cast<char>(i);
  EXPECT_EQ(unescape_token(escape_token(all)), all);
  EXPECT_EQ(escape_token("\xe4\xbd\xa0 \n"), R"(\xe4\xbd\xa0 \n)");
}

TEST(Gguf, NamesGoBothWays) {
  EXPECT_EQ(official_name("blk.3.time_mix_w1.weight", 7).official, "blocks.3.att.w1");
  EXPECT_EQ(official_name("blk.3.time_mix_w1.weight", 6).official, "blocks.3.att.time_maa_w1");
  EXPECT_EQ(official_name("blk.0.time_mix_v1.weight", 7).part, GgufPart::unused);
  EXPECT_EQ(official_name("blk.1.time_mix_v1.weight", 7).part, GgufPart::transposed);
  EXPECT_EQ(official_name("blk.1.strange", 7).official, "blocks.1.strange");
  EXPECT_EQ(gguf_name("blocks.12.ffn.value.weight", 7), "blk.12.channel_mix_value.weight");
  EXPECT_EQ(gguf_name("head.weight", 6), "output.weight");
  EXPECT_FALSE(gguf_name("blocks.0.ffn.s1", 7));
}

TEST(Gguf, PartsOfASplitFileAreFoundFromTheFirst) {
  const auto paths = split_paths("/models/m-00001-of-00003.gguf", 3);
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->at(2), "/models/m-00003-of-00003.gguf");
  const auto second = split_paths("/models/m-00002-of-00003.gguf", 3);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().text, HasSubstr("wanted the first"));
}

class GgufModels : public testing::TestWithParam<const char*> {};

TEST_P(GgufModels, HaveTheTypesAndSizesOfTheGoldenFile) {
  const Json golden = support::read_golden(std::string("gguf-") + GetParam());
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  const std::unique_ptr<Checkpoint> checkpoint = support::stored_gguf(golden);
  ASSERT_NE(checkpoint, nullptr);
  const Result<ModelConfig> config = identify(*checkpoint);
  ASSERT_TRUE(config.ok()) << config.error().text;
  const Json& metadata = golden["metadata"];
  const std::string prefix = metadata["general.architecture"].get<std::string>() + ".";
  EXPECT_EQ(config->n_embd, metadata[prefix + "embedding_length"].get<int64_t>());
  EXPECT_EQ(config->n_layer, metadata[prefix + "block_count"].get<int64_t>());
  EXPECT_EQ(config->n_ffn, metadata[prefix + "feed_forward_length"].get<int64_t>());
  EXPECT_EQ(config->head_size, metadata[prefix + "wkv.head_size"].get<int64_t>());
  EXPECT_EQ(checkpoint->metadata().at("general.architecture"), metadata["general.architecture"]);
  if (!golden.contains("files")) {
    for (const auto& [type, count] : golden["tensor_types"].items()) {
      if (type == "f32" || type == "f16") continue;  // stacked tensors are several of ours
      const auto& tensors = checkpoint->tensors();
      const auto found = std::count_if(tensors.begin(), tensors.end(),
                                       [&](const StoredTensor& t) { return name_of(t.dtype) == type; });
      EXPECT_EQ(found, count.get<int64_t>()) << type;
    }
  }
  ASSERT_NE(checkpoint->vocabulary(), nullptr);
  EXPECT_LE(checkpoint->vocabulary()->size(), static_cast<size_t>(config->vocab));
}

INSTANTIATE_TEST_SUITE_P(Stored, GgufModels, testing::ValuesIn(support::kStoredGguf),
                         [](const auto& test) { return support::parameter_name(test.param); });

}  // namespace
}  // namespace fulmar
