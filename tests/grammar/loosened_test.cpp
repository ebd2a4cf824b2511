// What is kept of schemas that are not strict, and what is told of the rest.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/taken.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Made {
  std::shared_ptr<const Grammar> grammar;
  std::vector<std::string> loosened;

  bool takes(std::string_view text) const { return testing::takes(grammar, text); }
};

JsonValue json(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value ? *value : JsonValue();
}

// The schema as a format that is not strict.
Made loosely(std::string_view schema) {
  Loosened loosened;
  auto grammar = json_schema_form(AnswerStart::plain, json(schema), {.strict = false, .loosened = &loosened});
  EXPECT_TRUE(grammar.ok()) << (grammar.ok() ? "" : grammar.error().text);
  return {grammar ? *grammar : nullptr, loosened.texts()};
}

// A keyword that no reader of schemas keeps: its value is none that it may have.
constexpr const char* kBroken = R"("minLength":"many")";

TEST(Loosened, NothingIsToldWhereAllIsKept) {
  EXPECT_THAT(loosely(R"({"type":"string","maxLength":2})").loosened, ElementsAre());
}

TEST(Loosened, OneKeywordGoesAndItsNeighboursStay) {
  const Made made = loosely(fmt::format(R"({{"type":"string",{},"maxLength":2}})", kBroken));
  ASSERT_TRUE(made.grammar);
  EXPECT_TRUE(made.takes(R"("ab")"));
  EXPECT_FALSE(made.takes(R"("abc")"));
  EXPECT_FALSE(made.takes("1"));
  EXPECT_THAT(made.loosened, ElementsAre(HasSubstr("'minLength' at '#'")));
}

TEST(Loosened, WhateverThePlaceTheRestOfTheSchemaStays) {
  // The broken keyword below each keyword that holds schemas; a member beside it is kept.
  const std::string broken = fmt::format(R"({{"type":"string",{}}})", kBroken);
  const std::string wholes[] = {
      fmt::format(R"({{"type":"object","properties":{{"n":{{"const":1}},"x":{}}},"required":["n","x"]}})",
                  broken),
      fmt::format(
          R"({{"$defs":{{"b":{}}},"type":"object","properties":{{"n":{{"const":1}},"x":{{"$ref":"#/$defs/b"}}}},)"
          R"("required":["n","x"]}})",
          broken),
      fmt::format(
          R"({{"type":"object","properties":{{"n":{{"const":1}},"x":{{"anyOf":[{},{{"type":"null"}}]}}}},)"
          R"("required":["n","x"]}})",
          broken)};
  for (const std::string& whole : wholes) {
    const Made made = loosely(whole);
    ASSERT_TRUE(made.grammar) << whole;
    EXPECT_TRUE(made.takes(R"({"n":1,"x":"a"})")) << whole;
    EXPECT_FALSE(made.takes(R"({"n":2,"x":"a"})")) << whole;
    EXPECT_FALSE(made.takes(R"({"n":1})")) << whole;
    EXPECT_THAT(made.loosened, ElementsAre(HasSubstr("'minLength'"))) << whole;
  }
}

TEST(Loosened, NamesOfAPatternThatIsNotKeptAreNotWritten) {
  const Made made =
      loosely(R"({"type":"object","properties":{"a":{"const":1}},"patternProperties":{"(a)\\1":{"const":2}},)"
              R"("additionalProperties":false})");
  ASSERT_TRUE(made.grammar);
  EXPECT_TRUE(made.takes(R"({"a":1})"));
  EXPECT_THAT(made.loosened, ElementsAre(HasSubstr("'patternProperties'")));
}

TEST(Loosened, AMemberThatNothingFitsIsLeftOut) {
  const Made made = loosely(
      R"({"type":"object","properties":{"a":{"const":1},"b":{"type":"integer","enum":["1","2"]}},"required":["a"]})");
  ASSERT_TRUE(made.grammar);
  EXPECT_TRUE(made.takes(R"({"a":1})"));
  EXPECT_FALSE(made.takes(R"({"a":1,"b":"1"})"));
}

TEST(Loosened, WhereNothingFitsAnyObjectIsTaken) {
  const Made made = loosely(R"({"type":"integer","enum":["1"]})");
  ASSERT_TRUE(made.grammar);
  EXPECT_TRUE(made.takes(R"({"x":1})"));
  EXPECT_THAT(made.loosened,
              ElementsAre(AllOf(HasSubstr("'#' admits no value"), HasSubstr("any object is taken"))));
}

TEST(Loosened, TheArgumentsOfAFunctionStayAnObject) {
  Loosened loosened;
  const auto form = tool_call_form(AnswerStart::plain, {{"f", json(R"({"type":"OBJECT"})"), false}}, false,
                                   kTaggedCall, {.loosened = &loosened});
  ASSERT_TRUE(form.ok());
  const Made made{*form, loosened.texts()};
  EXPECT_TRUE(made.takes(R"(<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>)"));
  EXPECT_FALSE(made.takes(R"(<tool_call>{"name":"f","arguments":1}</tool_call>)"));
  EXPECT_THAT(made.loosened, ElementsAre(HasSubstr("function 'f': schema keyword 'type'")));
}

TEST(Loosened, AStrictFunctionIsRefusedBesideOthersThatAreNot) {
  const JsonValue broken = json(fmt::format(R"({{"type":"string",{}}})", kBroken));
  const auto form = tool_call_form(AnswerStart::plain, {{"a", broken, false}, {"b", broken, true}}, false);
  ASSERT_FALSE(form.ok());
  EXPECT_THAT(form.error().text, HasSubstr("function 'b'"));
}

TEST(Loosened, ManyTextsAreCounted) {
  Loosened loosened;
  for (int i = 0; i < 100; ++i) loosened.add(std::to_string(i));
  loosened.add("0");
  ASSERT_EQ(loosened.texts().size(), Loosened::kMost);
  EXPECT_EQ(loosened.texts().back(), "85 more keywords are not kept");
}

TEST(Loosened, ManyKeywordsCostWhatTheBudgetAllows) {
  std::string schema = "{";
  for (int i = 0; i < 5000; ++i) schema += fmt::format(R"("k{}":{{"a":"{}"}},)", i, std::string(40, 'x'));
  schema += kBroken + std::string("}");
  Budget budget;
  Loosened loosened;
  const auto form = json_schema_form(AnswerStart::plain, json(schema),
                                     {.strict = false, .loosened = &loosened, .budget = &budget});
  ASSERT_TRUE(form.ok()) << form.error().text;
  EXPECT_FALSE(loosened.texts().empty());
}

}  // namespace
}  // namespace fulmar::testing
