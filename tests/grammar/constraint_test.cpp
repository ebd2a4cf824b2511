// Masks over vocabularies, and texts drawn at random under them.
#include "grammar/constraint.h"

#include <gmock/gmock.h>

#include <random>

#include "grammar/answer_form.h"
#include "net/json.h"
#include "text/byte_tokenizer.h"

namespace fulmar::testing {
namespace {

// Every byte, and a few tokens of several.
class ListTokenizer : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> longer) {
    bytes_.emplace_back();
    for (int byte = 0; byte < 256; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
    for (std::string& token : longer) bytes_.push_back(std::move(token));
  }
  using Tokenizer::encode;
  void encode(std::string_view, std::vector<int32_t>&) const override {}
  std::string_view bytes(int32_t id) const override {
    return id < 0 || id >= vocabulary_size() ? std::string_view() : bytes_[static_cast<size_t>(id)];
  }
  int32_t vocabulary_size() const override { return static_cast<int32_t>(bytes_.size()); }
  std::string_view name() const override { return "list"; }
  std::optional<int32_t> eos() const override { return 0; }

 private:
  std::vector<std::string> bytes_;
};

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
