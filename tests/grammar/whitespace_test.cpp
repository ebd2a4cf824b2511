// White space between the tokens of JSON: where it may stand, and how much of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/taken.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

constexpr const char* kSchema =
    R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"},"maxItems":30},"b":{"type":"object",)"
    R"("additionalProperties":{"type":"boolean"}},"c":{"const":{"d":[1,2]}}},"required":["a","b","c"]})";

bool takes(Whitespace whitespace, const std::string& text) {
  const auto form = json_schema_form(AnswerStart::plain, *parse_json(kSchema), {.whitespace = whitespace});
  EXPECT_TRUE(form);
  return testing::takes(*form, text);
}

// The same value with `gap` between all tokens.
std::string spaced(const std::string& gap) {
  const std::vector<std::string> tokens = {"{",     "\"a\"", ":", "[",     "1", ",",    "2",     "]",     ",",
                                           "\"b\"", ":",     "{", "\"x\"", ":", "true", ",",     "\"y\"", ":",
                                           "false", "}",     ",", "\"c\"", ":", "{",    "\"d\"", ":",     "[",
                                           "1",     ",",     "2", "]",     "}", "}"};
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) text += (i > 0 ? gap : "") + tokens[i];
  return text;
}

TEST(Whitespace, StandsBetweenAllTokensWithinItsBounds) {
  using enum Whitespace;
  struct Gap {
    std::string gap;
    bool in_normal;
    bool in_flexible;
  };
  for (const auto& [gap, in_normal, in_flexible] : {Gap{"", true, true},
                                                    {" ", true, true},
                                                    {"\n", true, true},
                                                    {"\n    ", true, true},
                                                    {"\n\t\t", true, true},
                                                    {"\n" + std::string(32, ' '), true, true},
                                                    {"\n" + std::string(33, ' '), false, true},
                                                    {"  ", false, true},
                                                    {"\n\n", false, true},
                                                    {"\t", false, true},
                                                    {"\r\n", false, true},
                                                    {std::string(64, ' '), false, true},
                                                    {std::string(65, ' '), false, false},
                                                    {"\v", false, false}}) {
    EXPECT_EQ(takes(none, spaced(gap)), gap.empty()) << gap.size();
    EXPECT_EQ(takes(normal, spaced(gap)), in_normal) << gap.size();
    EXPECT_EQ(takes(flexible, spaced(gap)), in_flexible) << gap.size();
  }
}

TEST(Whitespace, AsWritersOfJsonLeaveIt) {
  const std::string python = R"({"a": [1, 2], "b": {"x": true}, "c": {"d": [1, 2]}})";
  const std::string indented =
      "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": {\n    \"d\": [\n      1,\n      2\n    "
      "]\n  }\n}";
  EXPECT_TRUE(takes(Whitespace::normal, python));
  EXPECT_TRUE(takes(Whitespace::normal, indented));
  EXPECT_TRUE(takes(Whitespace::flexible, python));
  EXPECT_FALSE(takes(Whitespace::none, python));
  // Nothing within a token, and no gap is taken twice where nothing stands between two.
  EXPECT_FALSE(takes(Whitespace::normal, R"({"a": [], "b": {  }, "c": {"d": [1, 2]}})"));
  EXPECT_TRUE(takes(Whitespace::normal, R"({"a": [ ], "b": { }, "c": {"d": [1, 2]}})"));
  EXPECT_FALSE(takes(Whitespace::flexible, R"({"a": [1 2], "b": {}, "c": {"d": [1, 2]}})"));
}

}  // namespace
}  // namespace fulmar::testing
