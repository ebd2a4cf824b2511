// Sets of code points as choices of bytes: exactly their characters are taken, and a step costs little.
#include "grammar/code_points.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/taken.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

// Where UTF-8 changes its length, its lead byte or a continuation byte.
constexpr uint32_t kEdges[] = {0x00,    0x1F,    0x20,    0x22,   0x5C,   0x7F,    0x80,   0xBF,    0xC0,
                               0x7FF,   0x800,   0xFFF,   0x1000, 0x1FFF, 0x2000,  0x200A, 0x2028,  0x2029,
                               0x202F,  0x203F,  0x2040,  0xD7FF, 0xE000, 0xFEFF,  0xFFFF, 0x10000, 0x10FFF,
                               0x3FFFF, 0x40000, 0xFFFFF, 0x3042, 0x3000, 0x10FFFF};

std::string utf8(uint32_t point) {
  std::string bytes;
  append_utf8(point, bytes);
  return bytes;
}

std::shared_ptr<const Grammar> grammar_of(const CodePointSet& set, Budget& budget) {
  auto grammar = std::make_shared<Grammar>(budget);
  const Place place = character_of(*grammar, set, CharacterForm::plain, grammar->end());
  EXPECT_TRUE(grammar->finish(grammar->rule(place)).ok());
  return grammar;
}

// Sets of ranges whose ends lie at edges or beside them.
CodePointSet random_set(std::mt19937& random) {
  CodePointSet set;
  const size_t ranges = 1 + random() % 6;
  for (size_t i = 0; i < ranges; ++i) {
    const auto end = [&] {
      const uint32_t edge = kEdges[random() % std::size(kEdges)];
      return std::min<uint32_t>(edge + random() % 3, 0x10FFFF) - (edge > 0 ? random() % 2 : 0);
    };
    const uint32_t one = end(), other = random() % 2 ? one + random() % 70 : end();
    set.add(std::min(one, other), std::min<uint32_t>(std::max(one, other), 0x10FFFF));
  }
  return set;
}

TEST(CodePoints, OfASetAreTakenAndNoOthers) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const CodePointSet set = random_set(random);
    if (set.empty()) continue;
    Budget budget;
    Automaton automaton(grammar_of(set, budget));
    for (const uint32_t edge : kEdges) {
      for (uint32_t point = edge > 2 ? edge - 2 : 0; point <= std::min<uint32_t>(edge + 2, 0x10FFFF);
           ++point) {
        if (point >= 0xD800 && point <= 0xDFFF) continue;
        EXPECT_EQ(takes(automaton, utf8(point)), set.contains(point)) << round << " " << point;
      }
    }
  }
}

TEST(CodePoints, AreNoOtherBytes) {
  Budget budget;
  Automaton automaton(grammar_of(CodePointSet::all(), budget));
  for (const char* bytes : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
                            "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80", "\xC3", "\xE2\x80", "\xC3\xA9\xA9"}) {
    EXPECT_FALSE(takes(automaton, bytes));
  }
}

// Characters of which some are excluded are one place of a state, not one for each range of bytes.
TEST(CodePoints, OfManyRangesMakeCheapSteps) {
  const auto grammar = json_schema_form(
      AnswerStart::plain,
      *parse_json(R"({"type":"string","pattern":"^(?:\\S+\\s+){0,29}\\S+$","minLength":1,"maxLength":300})"));
  ASSERT_TRUE(grammar.ok());
  Automaton automaton(*grammar);
  Automaton::State state = automaton.start();
  for (const char byte : std::string_view("\"So many words \xE2\x80\x9Cin quotes\xE2\x80\x9D")) {
    const Automaton::State next = automaton.step(state, static_cast<uint8_t>(byte));
    ASSERT_NE(next, Automaton::kDead);
    EXPECT_LE(automaton.cost(state, static_cast<uint8_t>(byte)), 40u);
    state = next;
  }
}

// Hundreds of ranges on both sides of each character.
TEST(CodePoints, OfCategoriesMayStandAnywhere) {
  const std::string in_japanese = "\xE3\x81\x82", digit = "7";
  for (const char* pattern :
       {R"(\\p{L})", R"(\\P{L})", R"(\\p{Lu})", R"([\\p{Ll}1])", R"(.*\\p{L}.*)", R"(\\p{Script=Han})"}) {
    const std::string schema = std::string(R"({"type":"string","pattern":")") + pattern + "\"}";
    const auto grammar = json_schema_form(AnswerStart::plain, *parse_json(schema));
    ASSERT_TRUE(grammar.ok()) << pattern << ": " << grammar.error().text;
  }
  const auto letters =
      json_schema_form(AnswerStart::plain, *parse_json(R"({"type":"string","pattern":"\\p{L}"})"));
  ASSERT_TRUE(letters.ok());
  EXPECT_TRUE(takes(*letters, "\"7" + in_japanese + "7\""));
  EXPECT_FALSE(takes(*letters, "\"777\""));
  const auto texts = regex_form(AnswerStart::plain, R"(.*\p{L}.*)", {});
  ASSERT_TRUE(texts.ok()) << texts.error().text;
  EXPECT_TRUE(takes(*texts, "7" + in_japanese));
  EXPECT_FALSE(takes(*texts, digit));
}

}  // namespace
}  // namespace fulmar::testing
