// What adapter_config.json says is taken, or refused by name; nothing that changes the result is ignored.
#include "adapters/peft_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulmar {
namespace {

using testing::HasSubstr;

Result<PeftConfig> lora_with(const std::string& more) {
  return read_peft_config(R"({"peft_type": "LORA", "r": 16, "lora_alpha": 32)" + more + "}");
}

std::string error_of(const Result<PeftConfig>& config) { return config.ok() ? "" : config.error().text; }

TEST(PeftConfig, SaysScaleAndRankOfEachModule) {
  const auto config = lora_with(
      R"(, "rank_pattern": {"att.key": 4, "blocks.1.ffn": 5}, "alpha_pattern": {"key": 2.0, "0.att.key": 9})");
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->rank_at("blocks.0.att.key"), 4);
  EXPECT_EQ(config->rank_at("blocks.0.ffn.key"), 16);
  EXPECT_EQ(config->rank_at("blocks.1.ffn"), 5);
  EXPECT_EQ(config->rank_at("blocks.0.batt.key"), 16);
  EXPECT_EQ(config->scale_at("blocks.0.att.key"), 2.0 / 4);  // the first pattern that fits
  EXPECT_EQ(config->scale_at("blocks.0.att.value"), 2.0);
  const auto root = lora_with(R"(, "use_rslora": true)");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->scale_at("any"), 32.0 / 4);
}

TEST(PeftConfig, HasTheLibrarysDefaults) {
  const auto lora = read_peft_config(R"({"peft_type": "LORA"})");
  ASSERT_TRUE(lora.ok());
  EXPECT_EQ(lora->rank, 8);
  EXPECT_EQ(lora->scale_at("any"), 1.0);
  const auto miss = read_peft_config(R"({"peft_type": "MISS", "lora_alpha": 7})");
  ASSERT_TRUE(miss.ok());
  EXPECT_EQ(miss->rank, 64);
  EXPECT_EQ(miss->scale_at("any"), 1.0);
}

TEST(PeftConfig, RefusesByNameWhatChangesTheMethod) {
  for (const std::string name :
       {"alora_invocation_tokens", "target_parameters", "layer_replication", "trainable_token_indices",
        "lora_bias", "fan_in_fan_out", "use_qalora", "use_bdlora", "use_anything_new", "arrow_config",
        "megatron_config", "some_new_config"}) {
    for (const std::string value : {"true", "1", "\"x\"", "[1]", R"({"a": 1})"}) {
      const auto config = lora_with(fmt::format(R"(, "{}": {})", name, value));
      EXPECT_THAT(error_of(config), HasSubstr(name)) << value;
    }
    for (const std::string value : {"false", "0", "null", "\"\"", "[]", "{}"}) {
      const auto config = lora_with(fmt::format(R"(, "{}": {})", name, value));
      EXPECT_TRUE(config.ok()) << name << " " << value << ": " << error_of(config);
    }
  }
}

TEST(PeftConfig, RefusesTrainingThatChangedTheBase) {
  for (const char* init :
       {"pissa", "PiSSA_niter_16", "olora", "corda", "loftq", "lora_ga", "something new"}) {
    EXPECT_THAT(error_of(lora_with(fmt::format(R"(, "init_lora_weights": "{}")", init))), HasSubstr(init));
  }
  for (const char* init :
       {"true", "false", "null", "\"gaussian\"", "\"eva\"", "\"orthogonal\"", "\"mica\""}) {
    EXPECT_TRUE(lora_with(fmt::format(R"(, "init_lora_weights": {})", init)).ok()) << init;
  }
}

TEST(PeftConfig, RefusesPatternsThatAreNoPlainText) {
  for (const char* pattern : {"(a+)+b", "^att", "att.*", "", "key$", "a|b", "k\\\\d"}) {
    for (const char* table : {"rank_pattern", "alpha_pattern"}) {
      const auto config = lora_with(fmt::format(R"(, "{}": {{"{}": 4}})", table, pattern));
      EXPECT_THAT(error_of(config), HasSubstr(fmt::format("{} has the pattern", table))) << pattern;
    }
  }
  EXPECT_THAT(error_of(lora_with(R"(, "rank_pattern": {"key": "4"})")), HasSubstr("rank_pattern of 'key'"));
  EXPECT_THAT(error_of(lora_with(R"(, "rank_pattern": {"key": 0})")), HasSubstr("wanted 1 to 1024"));
  EXPECT_THAT(error_of(lora_with(R"(, "rank_pattern": [1])")), HasSubstr("rank_pattern is no object"));
}

TEST(PeftConfig, KnowsTheKindsOfMiss) {
  const auto with = [](const std::string& init) {
    return read_peft_config(R"({"peft_type": "BONE", "r": 4, "init_weights": )" + init + "}");
  };
  EXPECT_EQ(with("true")->method, PeftMethod::miss);
  EXPECT_EQ(with("false")->method, PeftMethod::miss);
  EXPECT_EQ(with("\"bat\"")->method, PeftMethod::bat);
  EXPECT_EQ(with("\"mini\", \"mini_r\": 2")->mini_rank, 2);
  EXPECT_THAT(error_of(with("\"mini\", \"mini_r\": 0")), HasSubstr("mini_r is 0"));
  EXPECT_THAT(error_of(with("\"maxi\"")), HasSubstr("init_weights is 'maxi'"));
  EXPECT_THAT(error_of(with("3")), HasSubstr("init_weights is 3; wanted text"));
}

}  // namespace
}  // namespace fulmar
