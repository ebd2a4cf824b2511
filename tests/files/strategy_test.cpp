// Names of ways to store weights: which mean what, and which advice goes with few bits.
#include "files/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fulmar {
namespace {

// "att/ffn", a dash where weights stay.
std::string kinds_of(std::string_view name) {
  const auto strategy = strategy_named(name);
  if (!strategy.ok()) return "refused";
  const auto text = [](const auto& q) { return q ? std::string(q->name) : std::string("-"); };
  return text(strategy->time_mix) + "/" + text(strategy->channel_mix);
}

TEST(Strategy, NamesOfOtherServersMeanTheNearest) {
  const std::pair<const char*, const char*> cases[] = {{"", "-/-"},
                                                       {"None", "-/-"},
                                                       {"fp16", "-/-"},
                                                       {"bf16", "-/-"},
                                                       {"int8", "int8/int8"},
                                                       {"fp16i8", "int8/int8"},
                                                       {"bf16i8", "int8/int8"},
                                                       {"int4", "int4/int4"},
                                                       {"nf4", "nf4/nf4"},
                                                       {"quant", "nf4/nf4"},
                                                       {"bnb_nf4", "nf4/nf4"},
                                                       {"bnb_int4", "nf4/nf4"},
                                                       {"fp8", "fp8/fp8"},
                                                       {"fp6", "q6_k/q6_k"},
                                                       {"fp5", "q5_k/q5_k"},
                                                       {"fp5c", "q5_k/q5_k"},
                                                       {"attn_int8_ffn_int4", "int8/int4"},
                                                       {"attn_int8_ffn_fp6", "int8/q6_k"},
                                                       {"attn_int8_ffn_fp5", "int8/q5_k"},
                                                       {"attn_fp8_ffn_int4", "fp8/int4"},
                                                       {"attn_q6_k_ffn_q4_k", "q6_k/q4_k"},
                                                       {"attn_bf16_ffn_q8_0", "-/q8_0"}};
  for (const auto& [name, wanted] : cases) EXPECT_EQ(kinds_of(name), wanted) << name;
  for (const Quantisation& own : all_quantisations()) {
    EXPECT_EQ(kinds_of(own.name), std::string(own.name) + "/" + std::string(own.name));
  }
}

TEST(Strategy, UnknownNamesAreRefusedWithThoseThatThereAre) {
  for (const char* name : {"nonsense", "INT8", "attn_", "attn_int8", "attn_int8_ffn_", "attn__ffn_int4",
                           "attn_int8_ffn_attn_int8_ffn_int4", "q4_k ", "fp16 ", "fp16+stored_head",
                           "+stored_head", "q4_k+stored_head+stored_head"}) {
    const auto strategy = strategy_named(name);
    ASSERT_FALSE(strategy.ok()) << name;
    EXPECT_EQ(strategy.error().kind, ErrorKind::unsupported);
    for (const char* part : {"fp16", "q4_k", "fp6", "bnb_nf4", "attn_KIND_ffn_KIND"}) {
      EXPECT_THAT(strategy.error().text, testing::HasSubstr(part)) << name;
    }
  }
  EXPECT_LT(strategy_named(std::string(100000, 'x')).error().text.size(), 1000u);
}

TEST(Strategy, WordsSayWhatIsNearAndWhatIsTheSame) {
  const auto words = [](const char* name) { return describe(*strategy_named(name)); };
  EXPECT_EQ(words("fp16"), "as stored");
  EXPECT_EQ(words("q4_k"), "q4_k (4.5 bits a weight)");
  EXPECT_EQ(words("q4_k+stored_head"), "q4_k (4.5 bits a weight), the head as stored");
  EXPECT_EQ(words("fp6"), "q6_k (6.6 bits a weight), the nearest to fp6");
  EXPECT_EQ(
      words("attn_int8_ffn_fp5"),
      "attention int8 (8.0 bits a weight), ffn q5_k (5.5 bits a weight), the nearest to attn_int8_ffn_fp5");
}

TEST(Strategy, MixesGetTheirOwnQuantisationAndTheHeadUnlessItIsKept) {
  const QuantiseOptions options = options_of(*strategy_named("attn_int8_ffn_int4"));
  const int64_t shape[] = {256, 256};
  const auto kind = [&](const QuantiseOptions& all, const char* name) {
    const auto quantisation = quantisation_of(name, shape, all);
    return quantisation ? std::string(quantisation->name) : std::string("-");
  };
  EXPECT_EQ(kind(options, "blocks.0.att.key.weight"), "int8");
  EXPECT_EQ(kind(options, "blocks.11.ffn.key.weight"), "int4");
  EXPECT_EQ(kind(options, "head.weight"), "q8_0");
  EXPECT_EQ(kind(options, "emb.weight"), "-");
  EXPECT_EQ(kind(options, "blocks.0.att.w1"), "-");
  EXPECT_EQ(kind(options_of(*strategy_named("q4_k"), true), "head.weight"), "-");
  const QuantiseOptions stored = options_of(*strategy_named("attn_int8_ffn_int4+stored_head"));
  EXPECT_EQ(kind(stored, "head.weight"), "-");
  EXPECT_EQ(kind(stored, "blocks.11.ffn.key.weight"), "int4");
  EXPECT_EQ(kind(options_of(*strategy_named("fp16")), "head.weight"), "-");
}

TEST(Strategy, SmallModelsAreAdvisedAgainstFourBits) {
  const auto advice = [](const char* name, double parameters) {
    return few_bits_advice(options_of(*strategy_named(name)), static_cast<int64_t>(parameters));
  };
  for (const char* name : {"q4_k", "nf4", "int4", "q2_k", "attn_int8_ffn_int4"}) {
    EXPECT_THAT(advice(name, 1.5e9), testing::HasSubstr("1.5 billion")) << name;
    EXPECT_EQ(advice(name, 7.2e9), "") << name;
  }
  for (const char* name : {"q8_0", "int8", "fp8", "q6_k", "q5_k", "fp16"})
    EXPECT_EQ(advice(name, 1e8), "") << name;
}

}  // namespace
}  // namespace fulmar
