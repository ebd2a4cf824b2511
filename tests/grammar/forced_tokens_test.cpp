// Which token a text goes on with whatever the model says.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "grammar/answer_form.h"
#include "grammar/constraint.h"
#include "grammar/list_tokenizer.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

using Texts = std::vector<std::string>;

ConstraintWalk walk_of(const Result<std::shared_ptr<const Grammar>>& grammar, const Tokenizer& tokenizer) {
  EXPECT_TRUE(grammar.ok()) << (grammar.ok() ? "" : grammar.error().text);
  const auto tree = std::make_shared<const TokenTree>(*TokenTree::make(tokenizer));
  return {std::make_shared<Constraint>(Automaton(*grammar), tree), tokenizer, 0};
}

ConstraintWalk compact(const std::string& schema, const Tokenizer& tokenizer) {
  return walk_of(json_schema_form(AnswerStart::plain, *parse_json(schema)), tokenizer);
}

// The tokens that are forced from here on, one after the other.
Texts forced_from(ConstraintWalk& walk, const Tokenizer& tokenizer) {
  Texts texts;
  while (!walk.complete() && texts.size() < 100) {
    const auto token = walk.forced();
    if (!token) break;
    texts.emplace_back(tokenizer.bytes(*token));
    walk.accept(*token);
  }
  return texts;
}

void say(ConstraintWalk& walk, std::string_view text) {
  for (const char byte : text) walk.accept(static_cast<unsigned char>(byte) + 1);
}

constexpr const char* kPerson = R"({"type":"object","additionalProperties":false,"required":["name","age"],)"
                                R"("properties":{"name":{"type":"string"},"age":{"type":"integer"}}})";

TEST(ForcedTokens, AFixedTextIsDividedAsTheTokenizerDoes) {
  const ListTokenizer tokenizer({"na", "nam", "me", "{\"", "\":", "age"});
  ConstraintWalk walk = compact(kPerson, tokenizer);
  EXPECT_FALSE(walk.forced()) << "a blank may come first";
  say(walk, "{");
  EXPECT_THAT(forced_from(walk, tokenizer), ::testing::ElementsAre("\"", "nam", "e", "\":"));
  EXPECT_FALSE(walk.forced()) << "\": may be the quote and a string's first character";
  say(walk, "\"Ada\"");
  EXPECT_THAT(forced_from(walk, tokenizer), ::testing::ElementsAre(",", "\"", "age", "\":"));
  say(walk, "36}");
  EXPECT_TRUE(walk.complete());
}

TEST(ForcedTokens, ATokenThatALongerOneMayCoverIsLeftToTheModel) {
  const ListTokenizer covering({"\":\"", "\":\"A", "name"});
  ConstraintWalk walk = compact(kPerson, covering);
  say(walk, "{");
  EXPECT_THAT(forced_from(walk, covering), ::testing::ElementsAre("\"", "name")) << "\":\"A may follow";
  // A longer token that no text takes covers nothing.
  const ListTokenizer refused({"\":\"", "\":\"\n", "name", "name\"}"});
  ConstraintWalk other = compact(kPerson, refused);
  say(other, "{");
  EXPECT_THAT(forced_from(other, refused), ::testing::ElementsAre("\"", "name", "\":\""));
}

TEST(ForcedTokens, AWordIsForcedFromWhereItDiffersFromOthers) {
  const ListTokenizer tokenizer({"re", "red", "blue", "black", "lac"});
  ConstraintWalk walk = compact(R"({"enum":["red","blue","black"]})", tokenizer);
  say(walk, "\"");
  EXPECT_FALSE(walk.forced());
  say(walk, "b");
  EXPECT_FALSE(walk.forced()) << "lac is longer than l";
  ConstraintWalk black = walk, red = compact(R"({"enum":["red","blue","black"]})", tokenizer);
  say(black, "la");
  EXPECT_THAT(forced_from(black, tokenizer), ::testing::ElementsAre("c", "k", "\""));
  say(red, "\"r");
  EXPECT_THAT(forced_from(red, tokenizer), ::testing::ElementsAre("e", "d", "\""));
}

TEST(ForcedTokens, NoneWhereTheTextMayEnd) {
  const ListTokenizer tokenizer({"ab", "cd"});
  ConstraintWalk walk = walk_of(regex_form(AnswerStart::plain, "ab(cd)?"), tokenizer);
  EXPECT_EQ(forced_from(walk, tokenizer), Texts{"ab"});
  const ListTokenizer longer({"ab", "abcd"});
  EXPECT_FALSE(walk_of(regex_form(AnswerStart::plain, "ab(cd)?"), longer).forced()) << "or abcd";
}

TEST(ForcedTokens, WhiteSpaceThatMayVaryEndsThem) {
  const ListTokenizer tokenizer({"name", "\": \""});
  const FormOptions options{.whitespace = Whitespace::normal};
  ConstraintWalk walk =
      walk_of(json_schema_form(AnswerStart::plain, *parse_json(kPerson), options), tokenizer);
  say(walk, "{ \"");
  EXPECT_EQ(forced_from(walk, tokenizer), Texts{"name"}) << "\": \" is longer than \"";
}

TEST(ForcedTokens, FreeTextHasNone) {
  const ListTokenizer tokenizer({"<tool_call>"});
  ConstraintWalk walk =
      walk_of(text_or_calls_form(AnswerStart::plain, {{"f", JsonValue()}}, false), tokenizer);
  EXPECT_FALSE(walk.forced());
  say(walk, "<tool_call>{\"");
  EXPECT_THAT(forced_from(walk, tokenizer), ::testing::Contains("n"));
}

// What `forced` has to be, from masks alone: the longest token of those that are allowed, where all others
// begin it and each of its bytes is the only one.
std::optional<int32_t> expected(ConstraintWalk walk, const ListTokenizer& tokenizer) {
  std::optional<int32_t> longest;
  const auto mask = walk.allowed();
  Texts allowed;
  for (int32_t id = 1; id < tokenizer.vocabulary_size() && !mask.empty(); ++id) {
    if (!(mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1)) continue;
    allowed.emplace_back(tokenizer.bytes(id));
    if (!longest || allowed.back().size() > tokenizer.bytes(*longest).size()) longest = id;
  }
  if (!longest) return std::nullopt;
  const std::string_view text = tokenizer.bytes(*longest);
  for (const std::string& one : allowed) {
    if (!text.starts_with(one)) return std::nullopt;
  }
  for (const char byte : text) {
    const auto next = walk.allowed();
    for (int32_t id = 0; id <= 256; ++id) {
      const bool is_it = id == static_cast<unsigned char>(byte) + 1;
      if ((next.empty() || (next[static_cast<size_t>(id) / 64] >> (id % 64) & 1)) != is_it)
        return std::nullopt;
    }
    say(walk, std::string_view(&byte, 1));
  }
  return longest;
}

std::string random_schema(std::mt19937& random, int depth) {
  const auto below = [&](unsigned bound) { return static_cast<int>(random() % bound); };
  static const Texts kNames{"a", "ab", "abc", "name", "nam", "n\\n", "x y"};
  switch (below(depth > 0 ? 8 : 5)) {
    case 0:
      return R"({"type":"boolean"})";
    case 1:
      return R"({"type":"string","maxLength":3})";
    case 2:
      return fmt::format(R"({{"type":"integer","minimum":{0},"maximum":{0}}})", below(2000));
    case 3:
      return R"({"enum":["ab","abc","name",null]})";
    case 4:
      return R"({"const":{"ab":[1,"name"]}})";
    case 5:
      return fmt::format(R"({{"type":"array","items":{},"maxItems":2}})", random_schema(random, depth - 1));
    default:
      break;
  }
  std::string members, required;
  for (const std::string& name : kNames) {
    if (below(3) != 0) continue;
    members +=
        fmt::format(R"({}"{}":{})", members.empty() ? "" : ",", name, random_schema(random, depth - 1));
    if (below(3) != 0) required += fmt::format(R"({}"{}")", required.empty() ? "" : ",", name);
  }
  return fmt::format(
      R"({{"type":"object","additionalProperties":false,"properties":{{{}}},"required":[{}]}})", members,
      required);
}

// Random texts of random schemas: at each token what is forced is what the masks leave.
TEST(ForcedTokens, AreWhatMasksLeave) {
  std::mt19937 random(7);
  const ListTokenizer tokenizer({"{\"", "\":", "\":\"", "\",\"", "name", "na", "ab",  "abc",  "\"}", "\":\"a",
                                 "},",  "[\"", "[1",    "11",    "true", "tr", "\"a", "c\":", ": ",  "}}"});
  int64_t forced = 0, free = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string schema = random_schema(random, 3);
    const FormOptions options{.whitespace = i % 3 == 0 ? Whitespace::normal : Whitespace::none,
                              .order = i % 5 == 0 ? MemberOrder::any : MemberOrder::schema};
    const auto grammar = json_schema_form(AnswerStart::plain, *parse_json(schema), options);
    if (!grammar.ok()) continue;
    ConstraintWalk walk = walk_of(grammar, tokenizer);
    std::string text;
    for (int step = 0; step < 60 && !walk.complete(); ++step) {
      const auto token = walk.forced();
      ASSERT_EQ(token, expected(walk, tokenizer)) << schema << "\nbehind " << text;
      (token ? forced : free)++;
      std::vector<int32_t> may;
      const auto mask = walk.allowed();
      for (int32_t id = 1; id < tokenizer.vocabulary_size(); ++id) {
        if (mask.empty() || (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1)) may.push_back(id);
      }
      if (may.empty()) break;
      const int32_t next = token && random() % 4 != 0 ? *token : may[random() % may.size()];
      text += tokenizer.bytes(next);
      walk.accept(next);
    }
  }
  EXPECT_GT(forced, 1000);
  EXPECT_GT(free, 1000);
}

}  // namespace
}  // namespace fulmar::testing
