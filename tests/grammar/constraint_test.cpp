// Masks over vocabularies, and texts drawn at random under them.
#include "grammar/constraint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "grammar/answer_form.h"
#include "grammar/list_tokenizer.h"
#include "net/json.h"
#include "text/byte_tokenizer.h"

namespace fulmar::testing {
namespace {

std::shared_ptr<Constraint> bind(const std::string& schema, const Tokenizer& tokenizer) {
  auto grammar = json_schema_form(AnswerStart::plain, *parse_json(schema));
  EXPECT_TRUE(grammar.ok());
  auto tree = TokenTree::make(tokenizer);
  EXPECT_TRUE(tree.ok());
  return std::make_shared<Constraint>(Automaton(*grammar),
                                      std::make_shared<const TokenTree>(std::move(*tree)));
}

std::vector<std::string> allowed_tokens(std::span<const uint64_t> mask, const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (size_t id = 0; id < mask.size() * 64; ++id) {
    if (mask[id / 64] >> (id % 64) & 1) tokens.emplace_back(tokenizer.bytes(static_cast<int32_t>(id)));
  }
  return tokens;
}

TEST(ConstraintWalk, AllowsTokensOfWhichEveryByteFits) {
  const ListTokenizer tokenizer({"tr", "true", "true,", "fal", "{\"", " t"});
  ConstraintWalk walk(bind(R"({"type":"boolean"})", tokenizer), tokenizer, 0);
  EXPECT_THAT(allowed_tokens(walk.allowed(), tokenizer),
              ::testing::UnorderedElementsAre("\n", " ", "f", "t", "tr", "true", "fal", " t"));
  walk.accept(257);
  EXPECT_EQ(allowed_tokens(walk.allowed(), tokenizer), std::vector<std::string>{"u"});
  EXPECT_FALSE(walk.complete());
  walk.accept('u' + 1);
  walk.accept('e' + 1);
  EXPECT_TRUE(walk.complete());
}

TEST(ConstraintWalk, OffersTheStopWhereTheTextMayEnd) {
  const ListTokenizer tokenizer({});
  const auto constraint = bind(R"({"type":"integer","minimum":1,"maximum":50})", tokenizer);
  ConstraintWalk walk(constraint, tokenizer, 0);
  EXPECT_EQ(walk.allowed()[0] & 1, 0u);
  walk.accept('4' + 1);
  EXPECT_EQ(walk.allowed()[0] & 1, 1u);
  EXPECT_FALSE(walk.complete());
  ConstraintWalk without_stop(constraint, tokenizer, std::nullopt);
  without_stop.accept('4' + 1);
  EXPECT_TRUE(without_stop.complete());
}

// A token that goes over the end of a mark has to go on as a call does; whatever begins none is free.
TEST(ConstraintWalk, MarksThatTokensCutBindWhatFollows) {
  const ListTokenizer tokenizer({"<tool", "_call>", "_call>\n", "_call>{\"", "_call>x", "_calls",
                                 "a<tool_call>x", "a<tool_call>{", "<<tool_call>{\"name\"",
                                 std::string(300, 'a')});
  const auto id_of = [&](std::string_view token) {
    int32_t id = tokenizer.vocabulary_size() - 1;
    while (tokenizer.bytes(id) != token) --id;
    return id;
  };
  const auto grammar = text_or_calls_form(AnswerStart::plain, {{"f", JsonValue()}}, false);
  ASSERT_TRUE(grammar.ok());
  const auto tree = std::make_shared<const TokenTree>(*TokenTree::make(tokenizer));
  ConstraintWalk walk(std::make_shared<Constraint>(Automaton(*grammar), tree), tokenizer, 0);
  const auto forbidden = [&] {
    std::vector<std::string> tokens;
    const auto mask = walk.allowed();
    for (int32_t id = 0; id < tokenizer.vocabulary_size() && !mask.empty(); ++id) {
      const auto at = static_cast<size_t>(id);
      if (!(mask[at / 64] >> (at % 64) & 1)) tokens.emplace_back(tokenizer.bytes(id));
    }
    return tokens;
  };
  EXPECT_THAT(forbidden(), ::testing::ElementsAre("a<tool_call>x"));
  walk.accept(id_of("<tool"));
  EXPECT_THAT(forbidden(), ::testing::ElementsAre("_call>\n", "_call>x", "a<tool_call>x"));
  ConstraintWalk other = walk;
  other.accept(id_of("_calls"));
  EXPECT_TRUE(other.heeds('x' + 1));
  EXPECT_FALSE(other.complete());
  walk.accept(id_of("_call>{\""));
  EXPECT_FALSE(walk.heeds('x' + 1));
  EXPECT_EQ(allowed_tokens(walk.allowed(), tokenizer), std::vector<std::string>{"n"});
}

// As a state of an answer's free text costs: the vocabulary is walked once, however long the text.
TEST(ConstraintWalk, FreeTextIsReadyFromItsFirstMaskOn) {
  const ListTokenizer tokenizer({});
  const auto grammar = text_or_calls_form(AnswerStart::plain, {{"f", JsonValue()}}, false);
  const auto tree = std::make_shared<const TokenTree>(*TokenTree::make(tokenizer));
  ConstraintWalk walk(std::make_shared<Constraint>(Automaton(*grammar), tree), tokenizer, 0);
  EXPECT_TRUE(walk.allowed().empty());
  for (int32_t id = 1; id < tokenizer.vocabulary_size(); ++id) {
    if (id == '<' + 1) continue;
    walk.accept(id);
    EXPECT_TRUE(walk.ready()) << id;
  }
  EXPECT_TRUE(walk.allowed().empty());
}

TEST(TokenTree, NeedsEveryByteOfUtf8) {
  class NoBrace : public ListTokenizer {
   public:
    NoBrace() : ListTokenizer({}) {}
    std::string_view bytes(int32_t id) const override {
      return id == '{' + 1 ? std::string_view() : ListTokenizer::bytes(id);
    }
  };
  const auto tree = TokenTree::make(NoBrace());
  ASSERT_FALSE(tree.ok());
  EXPECT_NE(tree.error().text.find("0x7b"), std::string::npos) << tree.error().text;
}

// Draws evenly among the allowed tokens; empty when the text had not ended in time.
std::optional<std::string> draw(ConstraintWalk walk, const Tokenizer& tokenizer, std::mt19937& random,
                                int most) {
  std::string text;
  for (int i = 0; i < most; ++i) {
    if (walk.complete()) return text;
    std::vector<int32_t> ids;
    const auto mask = walk.allowed();
    for (size_t id = 0; id < mask.size() * 64; ++id) {
      if (mask[id / 64] >> (id % 64) & 1) ids.push_back(static_cast<int32_t>(id));
    }
    EXPECT_FALSE(ids.empty()) << "stuck after: " << text;
    if (ids.empty()) return std::nullopt;
    const int32_t id = ids[random() % ids.size()];
    if (id == 0) return text;
    text += tokenizer.bytes(id);
    walk.accept(id);
  }
  return std::nullopt;
}

TEST(ConstraintWalk, WhateverIsDrawnIsJson) {
  const ListTokenizer tokenizer(
      {"\":", "\",\"", "},{", "]}", "12", "0.5", "\xE2\x80", "\xF0\x9F", "{\"", "[]"});
  const auto constraint =
      bind(R"({"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":8},)"
           R"("list":{"type":"array","items":{"anyOf":[{"type":"number"},{"$ref":"#"}]},"maxItems":2}},)"
           R"("required":["id","list"]})",
           tokenizer);
  std::mt19937 random(7);
  int ended = 0;
  for (int i = 0; i < 300; ++i) {
    const auto text = draw(ConstraintWalk(constraint, tokenizer, 0), tokenizer, random, 2000);
    if (!text) continue;
    ended++;
    const auto value = parse_json(*text);
    ASSERT_TRUE(value.ok()) << *text;
    ASSERT_TRUE(value->find("id") && value->find("list")) << *text;
  }
  EXPECT_GT(ended, 250);
}

// Tokens of plain characters, of quotes and commas among them, and of pieces of UTF-8.
std::vector<std::string> random_tokens(std::mt19937& random) {
  static const std::string kPieces[] = {
      "a",   "b",   "ab", "1", "-", " ", "\n", "\"",       "\",",      "\":",  "\\",
      "\\n", "u00", ",",  "[", "]", "{", "}",  "\xC3\xA9", "\xE2\x82", "\xAC", "\xF0\x9F\x98\x80"};
  std::vector<std::string> tokens;
  for (int i = 0; i < 300; ++i) {
    std::string token;
    for (unsigned pieces = 2 + random() % 5; pieces > 0; --pieces)
      token += kPieces[random() % std::size(kPieces)];
    tokens.push_back(std::move(token));
  }
  tokens.push_back(std::string(40, 'a'));  // longer than what is known without a walk
  tokens.push_back(std::string(100, 'b'));
  return tokens;
}

class ExactMasks : public ::testing::TestWithParam<const char*> {};

// However masks are found, and whichever states share them: a token is in one exactly if all its bytes go on.
TEST_P(ExactMasks, HoldTheTokensOfWhichEveryByteGoesOn) {
  std::mt19937 random(5);
  const ListTokenizer tokenizer(random_tokens(random));
  const auto constraint = bind(GetParam(), tokenizer);
  const auto grammar = json_schema_form(AnswerStart::plain, *parse_json(GetParam()));
  ASSERT_TRUE(grammar);
  Automaton automaton(*grammar);
  for (int round = 0; round < 12; ++round) {
    ConstraintWalk walk(constraint, tokenizer, std::nullopt);
    Automaton::State state = automaton.start();
    for (int step = 0; step < 25 && state != Automaton::kDead && !automaton.final(state); ++step) {
      const auto mask = walk.allowed();
      std::vector<int32_t> ids;
      for (int32_t id = 1; id < tokenizer.vocabulary_size(); ++id) {
        Automaton::State after = state;
        for (const char byte : tokenizer.bytes(id)) {
          if (after != Automaton::kDead) after = automaton.step(after, static_cast<uint8_t>(byte));
        }
        const bool marked = mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1;
        ASSERT_EQ(marked, after != Automaton::kDead) << tokenizer.bytes(id);
        if (marked && tokenizer.bytes(id) != "\n" && tokenizer.bytes(id) != " ") ids.push_back(id);
      }
      if (ids.empty()) break;
      const int32_t id = ids[random() % ids.size()];
      walk.accept(id);
      for (const char byte : tokenizer.bytes(id)) state = automaton.step(state, static_cast<uint8_t>(byte));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Counts, ExactMasks,
    ::testing::Values(
        R"({"type":"string"})", R"({"type":"string","maxLength":7})",
        R"({"type":"string","minLength":40,"maxLength":60})", R"({"type":"string","maxLength":5000})",
        R"({"type":"string","minLength":5000})", R"({"type":"string","minLength":300,"maxLength":900})",
        R"({"type":"string","pattern":"^[ab]*1$","maxLength":400})",
        R"({"type":"string","pattern":"^(ab)+$","minLength":300,"maxLength":900})",
        R"({"type":"string","pattern":"^(aab)+$","minLength":600,"maxLength":602})",
        R"({"type":"string","pattern":"\\S","maxLength":2000})",
        R"({"anyOf":[{"type":"string","maxLength":3},{"type":"string","pattern":"^a+$"}]})",
        R"({"anyOf":[{"type":"string","maxLength":3},{"const":"abababab"}]})",
        R"({"type":"array","items":{"type":"integer"},"maxItems":100000})",
        R"({"type":"array","items":{"type":"string","maxLength":2},"minItems":30,"maxItems":40})",
        R"({"type":"object","additionalProperties":{"type":"string","maxLength":50}})"));

// Counting says what writing out said.
TEST(Counts, KeepWithinTheirBounds) {
  const auto takes_text = [](const std::string& schema, const std::string& text) {
    const auto grammar = json_schema_form(AnswerStart::plain, *parse_json(schema));
    EXPECT_TRUE(grammar) << schema;
    Automaton automaton(*grammar);
    Automaton::State state = automaton.start();
    for (const char byte : text) {
      state = automaton.step(state, static_cast<uint8_t>(byte));
      if (state == Automaton::kDead) return false;
    }
    return automaton.accepting(state);
  };
  const auto quoted = [](size_t length) { return "\"" + std::string(length, 'a') + "\""; };
  const auto array = [](size_t length) {
    std::string text = "[0";
    for (size_t i = 1; i < length; ++i) text += ",0";
    return text + "]";
  };
  for (const auto& [least, most] : {std::pair{0, 3}, {1, 1}, {3, 30}, {25, 60}, {100, 700}, {2, 100'000}}) {
    const std::string texts =
        fmt::format(R"({{"type":"string","minLength":{},"maxLength":{}}})", least, most);
    const std::string matched =
        fmt::format(R"({{"type":"string","pattern":"^[a-z]+$","minLength":{},"maxLength":{}}})", least, most);
    const std::string arrays =
        fmt::format(R"({{"type":"array","items":{{"const":0}},"minItems":{},"maxItems":{}}})", least, most);
    for (const int length : {1, 2, 3, 4, 24, 25, 30, 31, 60, 61, 99, 100, 700, 701}) {
      const bool fits = least <= length && length <= most;
      EXPECT_EQ(takes_text(texts, quoted(static_cast<size_t>(length))), fits) << texts << length;
      EXPECT_EQ(takes_text(matched, quoted(static_cast<size_t>(length))), fits) << matched << length;
      EXPECT_EQ(takes_text(arrays, array(static_cast<size_t>(length))), fits) << arrays << length;
    }
  }
  EXPECT_TRUE(
      takes_text(R"({"type":"string","maxLength":200,"pattern":"^[a-z]{1,63}(\\.[a-z]{1,63}){0,4}$"})",
                 "\"abcdefghijklmnopqrstuvwxyz.abcdefghij.abc\""));
  EXPECT_FALSE(
      takes_text(R"({"type":"string","maxLength":20,"pattern":"^[a-z]{1,63}(\\.[a-z]{1,63}){0,4}$"})",
                 "\"abcdefghijklmnopqrstuvwxyz\""));
}

TEST(Constraint, AFullOneIsLeftBehindWithoutATrace) {
  const ListTokenizer tokenizer({});
  const auto constraint =
      bind(R"({"type":"array","items":{"type":"string","minLength":6000,"maxLength":6000}})", tokenizer);
  ConstraintWalk walk(constraint, tokenizer, 0);
  std::string text = "[\"" + std::string(6000, 'x') + "\",\"" + std::string(6000, 'y') + "\"]";
  for (const char byte : text) {
    const int32_t id = static_cast<unsigned char>(byte) + 1;
    const auto mask = walk.allowed();
    ASSERT_TRUE(mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1);
    walk.accept(id);
  }
  EXPECT_TRUE(walk.complete());
}

}  // namespace
}  // namespace fulmar::testing
