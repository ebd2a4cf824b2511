// The text that digests of packages begin with, as JsonCpp writes it.
#include "adapters/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/lightning_manifest.h"
#include "base/sha256.h"

namespace fulmar {
namespace {

using testing::HasSubstr;

std::string rewritten(const std::string& text) {
  const auto config = ConfigJson::parse("it", text);
  return config.ok() ? jsoncpp_text(config->object(), {"gone"}) : config.error().text;
}

TEST(ConfigJson, IsWrittenAsJsonCppDoes) {
  EXPECT_EQ(rewritten(R"({"b": 1, "a": [true, null, {}], "gone": 3, "B": "x/y"})"),
            R"({"B":"x/y","a":[true,null,{}],"b":1})");
  EXPECT_EQ(
      rewritten(R"({"n": [16, 16.0, 1e-07, 0.1, -2.5e300, 18446744073709551615, -7]})"),
      R"({"n":[16,16.0,9.9999999999999995e-08,0.10000000000000001,-2.5000000000000001e+300,18446744073709551615,-7]})");
  EXPECT_EQ(rewritten("{\"t\": \"\\u00e9 \\\"\\\\ \\n\\u0001 \x7f \\ud83d\\ude00\", \"in\": {\"gone\": 1}}"),
            "{\"in\":{\"gone\":1},\"t\":\"\\u00e9 \\\"\\\\ \\n\\u0001 \x7f \\ud83d\\ude00\"}");
}

TEST(ConfigJson, RefusesWhatHasTwoMeanings) {
  EXPECT_THAT(rewritten(R"({"a": {"r": 1, "r": 2}})"), HasSubstr("it has 'r' twice in one object"));
  EXPECT_THAT(rewritten("[1]"), HasSubstr("it is no JSON object"));
  EXPECT_THAT(rewritten("{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}"),
              HasSubstr("not JSON"));
}

TEST(LightningManifest, IsReadAsItIsWritten) {
  const LightningFacts facts{DType::f16, 8, 12, std::string(64, 'a')};
  const std::vector<LightningTarget> targets = {{"blocks.0.att.key.weight", 16, 32},
                                                {"blocks.11.ffn.value.weight", 64, 8}};
  const std::string plain = lightning_manifest_text(facts, targets, "");
  const std::string text = lightning_manifest_text(facts, targets, sha256_hex(plain));
  const auto manifest = read_lightning_manifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.error().text;
  EXPECT_EQ(manifest->hashed, plain);
  EXPECT_EQ(manifest->rank, 8);
  EXPECT_EQ(manifest->scale, 1.5);
  EXPECT_EQ(manifest->content_version, sha256_hex(plain));
  ASSERT_EQ(manifest->targets.size(), 2u);
  EXPECT_EQ(manifest->targets[1].weight, "blocks.11.ffn.value.weight");
  EXPECT_EQ(manifest->targets[1].outputs, 64);
  EXPECT_EQ(manifest->targets[1].inputs, 8);
}

}  // namespace
}  // namespace fulmar
