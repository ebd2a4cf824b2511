// Which suffix a request gets.
#include "text/think_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulmar {
namespace {

ThinkMode mode_of(const ThinkRequest& request, bool thinks = true, ThinkMode off = ThinkMode::fast_line) {
  const Result<ThinkMode> mode = choose_think_mode(request, off, thinks);
  EXPECT_TRUE(mode.ok());
  return mode.ok() ? *mode : ThinkMode::none;
}

TEST(ThinkMode, TypesByName) {
  EXPECT_EQ(parse_think_type("none"), ThinkMode::none);
  EXPECT_EQ(parse_think_type("fast"), ThinkMode::fast);
  EXPECT_EQ(parse_think_type("free"), ThinkMode::free);
  EXPECT_EQ(parse_think_type("preferChinese"), ThinkMode::prefer_chinese);
  EXPECT_EQ(parse_think_type("prefer_chinese"), ThinkMode::prefer_chinese);
  EXPECT_EQ(parse_think_type("en"), ThinkMode::think);
  EXPECT_EQ(parse_think_type("enShort"), ThinkMode::think_short);
  EXPECT_EQ(parse_think_type("en_short"), ThinkMode::think_short);
  EXPECT_EQ(parse_think_type("enLong"), ThinkMode::think_long);
  EXPECT_EQ(parse_think_type("en_long"), ThinkMode::think_long);
  for (const char* unknown : {"", "Fast", "think", "on"}) EXPECT_EQ(parse_think_type(unknown), std::nullopt);
}

TEST(ThinkMode, ThinksExactlyWhereTheBlockIsOpen) {
  for (const ThinkMode mode :
       {ThinkMode::none, ThinkMode::fast, ThinkMode::fast_closed, ThinkMode::fast_line}) {
    EXPECT_FALSE(is_thinking(mode));
  }
  for (const ThinkMode mode :
       {ThinkMode::free, ThinkMode::prefer_chinese, ThinkMode::think, ThinkMode::think_short,
        ThinkMode::think_long, ThinkMode::think_minimal, ThinkMode::think_extreme}) {
    EXPECT_TRUE(is_thinking(mode));
  }
}

TEST(ThinkMode, SilenceMeansTheRoutesDefault) {
  EXPECT_EQ(mode_of({}), ThinkMode::fast_line);
  EXPECT_EQ(mode_of({}, true, ThinkMode::fast), ThinkMode::fast);
  EXPECT_EQ(mode_of({}, false), ThinkMode::none);
}

TEST(ThinkMode, EveryEffort) {
  EXPECT_EQ(mode_of({.reasoning_effort = "none"}), ThinkMode::fast_line);
  EXPECT_EQ(mode_of({.reasoning_effort = "none"}, false), ThinkMode::none);
  EXPECT_EQ(mode_of({.reasoning_effort = "minimal"}), ThinkMode::think_minimal);
  EXPECT_EQ(mode_of({.reasoning_effort = "low"}), ThinkMode::think_short);
  EXPECT_EQ(mode_of({.reasoning_effort = "medium"}), ThinkMode::think);
  EXPECT_EQ(mode_of({.reasoning_effort = "high"}), ThinkMode::think_long);
  EXPECT_EQ(mode_of({.reasoning_effort = "xhigh"}), ThinkMode::think_extreme);
  EXPECT_EQ(mode_of({.reasoning_effort = "high"}, false), ThinkMode::think_long);
}

TEST(ThinkMode, AnUnknownEffortIsAnError) {
  for (const char* effort : {"", "High", "extreme"}) {
    const auto mode = choose_think_mode({.reasoning_effort = effort}, ThinkMode::fast, true);
    ASSERT_FALSE(mode.ok());
    EXPECT_EQ(mode.error().kind, ErrorKind::invalid);
    EXPECT_THAT(mode.error().text, testing::HasSubstr(std::string("'") + effort + "'"));
  }
}

TEST(ThinkMode, Booleans) {
  EXPECT_EQ(mode_of({.think = true}), ThinkMode::free);
  EXPECT_EQ(mode_of({.enable_think = true}), ThinkMode::free);
  EXPECT_EQ(mode_of({.think = false, .enable_think = true}), ThinkMode::free);
  EXPECT_EQ(mode_of({.think = true}, false), ThinkMode::free);
  EXPECT_EQ(mode_of({.think = false}), ThinkMode::fast_line);
  EXPECT_EQ(mode_of({.enable_think = false}, false), ThinkMode::none);
}

TEST(ThinkMode, Precedence) {
  EXPECT_EQ(mode_of({"fast", true, true, "high"}), ThinkMode::fast);
  EXPECT_EQ(mode_of({"enLong", false, false, "none"}), ThinkMode::think_long);
  EXPECT_EQ(mode_of({"nonsense", true, {}, "high"}), ThinkMode::free);
  EXPECT_EQ(mode_of({"nonsense", {}, {}, "high"}), ThinkMode::think_long);
  EXPECT_EQ(mode_of({"nonsense", {}, {}, {}}), ThinkMode::fast_line);
  EXPECT_EQ(mode_of({{}, true, {}, "low"}), ThinkMode::free);
  EXPECT_EQ(mode_of({{}, {}, false, "high"}), ThinkMode::fast_line);
}

TEST(ThinkMode, GSeriesByName) {
  for (const char* name : {"rwkv7-g1-1.5b", "rwkv7-g1a-0.4b-20250905-ctx4096", "rwkv7-g0b-13.3b",
                           "RWKV7_G1D.2b", "g0", "models/g1f", "rwkv7-g1a4-2.9b", "rwkv7 g1"}) {
    EXPECT_TRUE(is_g_series(name)) << name;
  }
  for (const char* name : {"", "rwkv7-world-1.5b", "rwkv7-g2-1b", "rwkv7-g1ab", "rwkv7-g10", "big1", "mg1-x",
                           "g", "g-1", "gguf", "fulmar-demo"}) {
    EXPECT_FALSE(is_g_series(name)) << name;
  }
}

TEST(ThinkMode, TheTemplateFlagOverridesTheName) {
  EXPECT_TRUE(thinks_by_default(ThinkTemplate::automatic, "rwkv7-g1a-0.4b"));
  EXPECT_FALSE(thinks_by_default(ThinkTemplate::automatic, "rwkv7-world-0.4b"));
  EXPECT_TRUE(thinks_by_default(ThinkTemplate::g1, "rwkv7-world-0.4b"));
  EXPECT_FALSE(thinks_by_default(ThinkTemplate::none, "rwkv7-g1a-0.4b"));
  EXPECT_EQ(parse_think_template("auto"), ThinkTemplate::automatic);
  EXPECT_EQ(parse_think_template("g1"), ThinkTemplate::g1);
  EXPECT_EQ(parse_think_template("none"), ThinkTemplate::none);
  EXPECT_EQ(parse_think_template("G1"), std::nullopt);
}

}  // namespace
}  // namespace fulmar
