// What a schema may cost: hostile ones end in a refusal that names the limit, never in a crash or a hang.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

// Each definition's items refer to the next one.
std::string chain_of_references(int count) {
  std::string text = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < count; ++i)
    text += fmt::format(R"("d{}":{{"items":{{"$ref":"#/$defs/d{}"}}}},)", i, i + 1);
  return text + fmt::format(R"("d{}":{{"type":"null"}}}}}})", count);
}

// Two alternatives of which every member refers to its own whole: naive comparison is breadth^depth.
std::string references_to_itself(int breadth) {
  const auto object = [&](char name) {
    std::string properties, required;
    for (int i = 0; i < breadth; ++i) {
      properties += fmt::format(R"({}"p{}":{{"$ref":"#/$defs/{}"}})", i > 0 ? "," : "", i, name);
      required += fmt::format(R"({}"p{}")", i > 0 ? "," : "", i);
    }
    return fmt::format(R"("{}":{{"type":"object","properties":{{{}}},"required":[{}]}})", name, properties,
                       required);
  };
  return R"({"oneOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/m"}],"$defs":{)" + object('n') + "," +
         object('m') + "}}";
}

JsonValue json(const std::string& text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text.substr(0, 200);
  return value ? *value : JsonValue();
}

std::string refusal(const std::string& schema) {
  Budget budget;
  const auto grammar = json_schema_form(AnswerStart::plain, json(schema), {.budget = &budget});
  return grammar ? "" : grammar.error().text;
}

// `count` times what `part` makes of a number, between commas.
std::string list(int count, const std::function<std::string(int)>& part) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + part(i);
  return text;
}

TEST(SchemaLimits, ALongChainOfReferencesIsNoDeepRecursion) {
  EXPECT_EQ(refusal(chain_of_references(5000)), "");
}

TEST(SchemaLimits, SchemasAreCounted) {
  const std::string text = refusal(R"({"properties":{)" +
                                   list(50'001, [](int i) { return fmt::format(R"("{}":{{}})", i); }) + "}}");
  EXPECT_NE(text.find("at most"), std::string::npos) << text;
}

TEST(SchemaLimits, BytesAreCounted) {
  const std::string text = refusal(R"({"const":")" + std::string(600'000, 'x') + "\"}");
  EXPECT_NE(text.find("600012 bytes of JSON"), std::string::npos) << text;
  EXPECT_NE(text.find("at most 524288"), std::string::npos) << text;
}

TEST(SchemaLimits, PairsOfAlternativesAreComparedOnce) {
  Budget budget;
  const auto grammar =
      json_schema_form(AnswerStart::plain, json(references_to_itself(10)), {.budget = &budget});
  ASSERT_FALSE(grammar.ok());
  EXPECT_NE(grammar.error().text.find("nothing ever ends"), std::string::npos) << grammar.error().text;
  EXPECT_LT(budget.used(Budget::Item::work), 1'000'000u);
}

TEST(SchemaLimits, WhatContradictsItselfIsSaidToDoSo) {
  const auto grammar =
      json_schema_form(AnswerStart::plain, json(R"({"type":"array","contains":false,"minContains":1})"), {});
  ASSERT_FALSE(grammar.ok());
  EXPECT_NE(grammar.error().text.find("contradict each other"), std::string::npos) << grammar.error().text;
}

TEST(SchemaLimits, ComparedPairsAreCounted) {
  constexpr int kAlternatives = 60, kMembers = 200;  // what is not compared takes far less
  constexpr size_t kComparisons = kAlternatives * (kAlternatives - 1) / 2 * kMembers;
  // Alike but for their last member.
  const JsonValue schema =
      json(R"({"oneOf":[)" +
           list(kAlternatives,
                [](int alternative) {
                  return R"({"type":"object","properties":{)" +
                         list(kMembers, [](int i) { return fmt::format(R"("p{}":{{"type":"null"}})", i); }) +
                         fmt::format(R"(,"kind":{{"const":{}}}}},"required":["kind",)", alternative) +
                         list(kMembers, [](int i) { return fmt::format(R"("p{}")", i); }) + "]}";
                }) +
           "]}");
  Budget enough;
  const auto grammar = json_schema_form(AnswerStart::plain, schema, {.budget = &enough});
  EXPECT_TRUE(grammar.ok()) << grammar.error().text;
  EXPECT_GT(enough.used(Budget::Item::work), kComparisons);
  Budget::Limits limits = Budget::kDefault;
  limits[static_cast<size_t>(Budget::Item::work)] = kComparisons;
  Budget little(limits);
  const auto refused = json_schema_form(AnswerStart::plain, schema, {.budget = &little});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find(fmt::format("units of work or more; at most {}", kComparisons)),
            std::string::npos)
      << refused.error().text;
}

TEST(SchemaLimits, RequiredNamesAreFoundByIndex) {
  const std::string members = list(8000, [](int i) { return fmt::format(R"("p{}":{{"type":"null"}})", i); });
  const std::string required = list(8000, [](int i) { return fmt::format(R"("p{}")", 7999 - i); });
  Budget budget;
  const auto grammar = json_schema_form(
      AnswerStart::plain,
      json(R"({"type":"object","properties":{)" + members + R"(},"required":[)" + required + "]}"),
      {.budget = &budget});
  EXPECT_TRUE(grammar.ok()) << grammar.error().text;
  EXPECT_LT(budget.used(Budget::Item::work), 2'000'000u);
}

TEST(SchemaLimits, OptionalPropertiesInARowAreCounted) {
  const auto schema = [](int count) {
    return R"({"properties":{)" +
           list(count, [](int i) { return fmt::format(R"("p{}":{{"type":"null"}})", i); }) + "}}";
  };
  EXPECT_EQ(refusal(schema(1000)), "");
  const std::string text = refusal(schema(1001));
  EXPECT_NE(text.find("1001 optional ones in a row; at most 1000"), std::string::npos) << text;
}

TEST(SchemaLimits, AlternativesAreCounted) {
  const std::string text = refusal(
      R"({"anyOf":[)" +
      list(3000, [](int i) { return fmt::format(R"({{"type":"string","maxLength":{}}})", i % 50 + 1); }) +
      "]}");
  EXPECT_NE(text.find("3000 alternatives"), std::string::npos) << text;
}

TEST(SchemaLimits, StatesOfPatternsAreCounted) {
  // Whether the 20th character from the end is an a takes a state for each history of 20.
  const std::string text = refusal(R"({"type":"string","pattern":"a.{20}$"})");
  EXPECT_NE(text.find("'pattern' at '#'"), std::string::npos) << text;
  EXPECT_NE(text.find("at most 16384"), std::string::npos) << text;
  const std::string nested = refusal(R"({"type":"string","pattern":"((a{99}){99}){99}"})");
  EXPECT_NE(nested.find("at most 16384"), std::string::npos) << nested;
  const std::string deep =
      refusal(R"({"type":"string","pattern":")" + std::string(40, '(') + std::string(40, ')') + "\"}");
  EXPECT_NE(deep.find("more than 32 groups"), std::string::npos) << deep;
}

// Small texts that stand for much work: each compiles, or is refused for its work, in a time that its limit
// bounds.
struct Costly {
  std::string name;
  std::string schema;
};

std::string emptied(int levels) {
  std::string pattern = "()";
  for (int i = 0; i < levels; ++i) pattern = "(" + pattern + "){9999}";
  return fmt::format(R"({{"type":"string","pattern":"^{}$"}})", pattern);
}

std::string dag_of_all_of(int width, int depth) {
  const std::string definitions = list(depth, [&](int i) {
    return fmt::format(R"("a{}":{{"allOf":[{}]}})", i,
                       list(width, [&](int) { return fmt::format(R"({{"$ref":"#/$defs/a{}"}})", i + 1); }));
  });
  return fmt::format(R"({{"$defs":{{{},"a{}":{{}}}},"allOf":[{{"$ref":"#/$defs/a0"}},{{"type":"string"}}]}})",
                     definitions, depth);
}

std::string long_names(int count, size_t length) {
  const std::string filler(length, 'n');
  return fmt::format(
      R"({{"type":"object","maxProperties":{},"properties":{{{}}}}})", count - 1,
      list(count, [&](int i) { return fmt::format(R"("{}{}":{{"type":"null"}})", i, filler); }));
}

TEST(SchemaLimits, WhatCostsMuchIsPaidForOrNotDone) {
  const Costly kCases[] = {
      {"repeats of nothing", emptied(4)},
      {"repeats of nothing, deep", emptied(24)},
      {"a dag of allOf", dag_of_all_of(40, 14)},
      {"an allOf that leads back to itself",
       R"({"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"c":{"allOf":[{"$ref":"#/$defs/N"},)"
       R"({"type":"object"}]}},"required":[]}}})"},
      {"long names with maxProperties", long_names(700, 700)},
      {"more names with maxProperties", long_names(2400, 180)},
      {"lengths of many states",
       R"({"properties":{)" +
           list(60,
                [](int i) {
                  return fmt::format(
                      R"("p{}":{{"type":"string","pattern":"^(a{{97}}b{{89}})*$","maxLength":{}}})", i,
                      5000 + i);
                }) +
           "}}"},
      {"a wide choice without end", R"({"type":"string","pattern":"()" +
                                        list(900, [](int i) { return i > 0 ? "|a" : "|b"; }) + R"()*$"})"},
  };
  for (const auto& [name, schema] : kCases) {
    Budget budget;
    const auto grammar = json_schema_form(AnswerStart::plain, json(schema), {.budget = &budget});
    if (!grammar) {
      EXPECT_NE(grammar.error().text.find("at most"), std::string::npos)
          << name << ": " << grammar.error().text;
    }
    // Half the work is not enough: so it was counted.
    if (budget.used(Budget::Item::work) < 1000) continue;
    Budget::Limits limits = Budget::kDefault;
    limits[static_cast<size_t>(Budget::Item::work)] = budget.used(Budget::Item::work) / 2;
    Budget half(limits);
    const auto refused = json_schema_form(AnswerStart::plain, json(schema), {.budget = &half});
    ASSERT_FALSE(refused) << name;
    EXPECT_NE(refused.error().text.find("units of work"), std::string::npos)
        << name << ": " << refused.error().text;
  }
}

TEST(SchemaLimits, AStoppedBudgetPaysForNothing) {
  const std::atomic<bool> stop = true;
  Budget budget(Budget::kDefault, &stop);
  for (const char* schema :
       {"{}", R"({"type":"object","properties":{"a":{"type":"string","pattern":"a+"}}})"}) {
    const auto grammar = json_schema_form(AnswerStart::plain, json(schema), {.budget = &budget});
    ASSERT_FALSE(grammar);
    EXPECT_EQ(grammar.error().kind, ErrorKind::unavailable);
  }
  const CallableTool tool{"f", json(R"({"type":"object","properties":{"a":{}}})"), false};
  const auto calls = tool_call_form(AnswerStart::plain, {tool}, true, kTaggedCall, {.budget = &budget});
  ASSERT_FALSE(calls);
  EXPECT_EQ(calls.error().kind, ErrorKind::unavailable);
}

TEST(SchemaLimits, RemaindersAreCounted) {
  const std::string text = refusal(R"({"type":"integer","multipleOf":999999999989})");
  EXPECT_NE(text.find("'multipleOf' at '#'"), std::string::npos) << text;
}

// Each level of arrays doubles the ways in which the brackets so far can be read.
std::string doubling(int levels) {
  std::string definitions;
  for (int i = 0; i < levels; ++i) {
    const std::string inner = fmt::format(R"({{"$ref":"#/$defs/l{}"}})", i + 1);
    const auto array = [&](int items) {
      return fmt::format(R"({{"type":"array","prefixItems":[{}],"items":{{"const":{}}}}})", inner, items);
    };
    definitions += fmt::format(R"("l{}":{{"anyOf":[{},{}]}},)", i, array(1), array(2));
  }
  return R"({"$ref":"#/$defs/l0","$defs":{)" + definitions +
         fmt::format(R"("l{}":{{"type":"null"}}}}}})", levels);
}

TEST(SchemaLimits, ReadingsAreCounted) {
  const std::string text = refusal(doubling(16));
  EXPECT_NE(text.find("in more than 1024 ways at once"), std::string::npos) << text;
}

TEST(Automaton, WhatIsLeftOutOfAWideReadingNeverLeadsAstray) {
  // The schema's check would refuse it; its grammar by itself has to be walked all the same.
  Budget budget;
  const auto grammar = std::make_shared<Grammar>(budget);
  Rule level = grammar->rule(grammar->text("x", grammar->end()));
  for (int i = 0; i < 14; ++i) {
    const Place one = grammar->text("[", grammar->call(level, grammar->text("]", grammar->end())));
    const Place other = grammar->text("[", grammar->call(level, grammar->text(")", grammar->end())));
    level = grammar->rule(grammar->branch(one, other));
  }
  ASSERT_TRUE(grammar->finish(level).ok());
  Automaton automaton(grammar);
  Automaton::State state = automaton.start();
  for (const char byte : std::string(14, '[') + "x") {
    state = automaton.step(state, static_cast<uint8_t>(byte));
    ASSERT_NE(state, Automaton::kDead);
  }
  EXPECT_TRUE(automaton.narrowed());
  for (int i = 0; i < 14; ++i) {
    const Automaton::State square = automaton.step(state, ']');
    const Automaton::State round = automaton.step(state, ')');
    ASSERT_TRUE(square != Automaton::kDead || round != Automaton::kDead) << i;
    state = square != Automaton::kDead ? square : round;
  }
  EXPECT_TRUE(automaton.accepting(state));
}

}  // namespace
}  // namespace fulmar::testing
