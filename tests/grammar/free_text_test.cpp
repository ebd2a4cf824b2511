// Texts that go on with almost anything: their masks are those of a walk byte by byte, and cost none.
#include <gtest/gtest.h>

#include <random>

#include "grammar/answer_form.h"
#include "grammar/list_tokenizer.h"
#include "grammar/token_tree.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

Automaton automaton_of(const std::string& schema) {
  const auto grammar = json_schema_form(AnswerStart::plain, *parse_json(schema));
  EXPECT_TRUE(grammar.ok()) << schema;
  return Automaton(*grammar);
}

Automaton::State after(Automaton& automaton, Automaton::State state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == Automaton::kDead) break;
    state = automaton.step(state, static_cast<uint8_t>(byte));
  }
  return state;
}

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Tokens of every length about that of free text, and of characters that not every text takes.
std::vector<std::string> awkward_tokens() {
  std::vector<std::string> tokens;
  for (const size_t length : {2u, 3u, 5u, 15u, 16u, 17u, 31u, 32u, 33u, 40u}) {
    for (const char* one : {"a", " ", "a ", "\u00e9", "\u4e2d", "<", "a\u2028"}) {
      tokens.push_back(repeated(one, length));
      tokens.push_back("\"" + repeated(one, length));
      tokens.push_back(repeated(one, length) + "\"");
      tokens.push_back("\\n" + repeated(one, length));
    }
  }
  for (const char* one :
       {"\u2028", "\u2029x", "a\x7F", "a\xE2\x80", "\xA8z", "\xA9", "\\u0001", "\\\\", "a\\", "@a"})
    tokens.emplace_back(one);
  return tokens;
}

const char* const kTexts[] = {
    R"({"type":"string","pattern":"^(?:\\S+\\s+){0,20}\\S+$","maxLength":70})",
    R"({"type":"string","pattern":"^(?:\\S+\\s+){0,17}\\S+$","minLength":3})",
    R"({"type":"string","pattern":"^$|^(?:\\S+\\s+){0,3}\\S+$","maxLength":5000})",
    R"({"type":"string","pattern":"[a-z]{3}@"})",
    R"({"type":"string","pattern":"a@","minLength":5,"maxLength":36})",
    R"({"type":"string","pattern":"^.*$"})",
    R"({"type":"string","pattern":"^.{3,40}$"})",
    R"({"type":"string","pattern":"^[^<]*$","maxLength":50})",
    R"({"type":"string","pattern":"^(..)*$","minLength":33,"maxLength":45})",
    R"({"type":"array","items":{"type":"string","pattern":"^\\S"},"maxItems":40})",
    R"({"type":"object","properties":{"aaa":{"const":1}},"additionalProperties":{"type":"string","pattern":"^\\S.*\\S$"}})",
};

TEST(FreeText, HasTheMasksOfAWalkByBytes) {
  const ListTokenizer tokenizer(awkward_tokens());
  const auto tree = TokenTree::make(tokenizer);
  ASSERT_TRUE(tree.ok());
  std::mt19937 random(41);
  for (const std::string schema : kTexts) {
    Automaton automaton = automaton_of(schema);
    for (int text = 0; text < 12; ++text) {
      Automaton::State state = automaton.start();
      std::string written;
      for (int step = 0; step < 30 && !automaton.final(state); ++step) {
        std::vector<uint64_t> mask(tree->words());
        tree->mark(automaton, state, mask);
        std::vector<int32_t> taken;
        for (int32_t id = 1; id < tokenizer.vocabulary_size(); ++id) {
          const bool marked = mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1;
          const bool goes_on = after(automaton, state, tokenizer.bytes(id)) != Automaton::kDead;
          ASSERT_EQ(marked, goes_on) << schema << " after " << written << ": " << tokenizer.bytes(id);
          if (goes_on && tokenizer.bytes(id) != "\"") taken.push_back(id);
        }
        if (taken.empty()) break;
        const int32_t id = taken[random() % taken.size()];
        written += tokenizer.bytes(id);
        state = after(automaton, state, tokenizer.bytes(id));
      }
    }
  }
}

// A walk through the vocabulary would visit a node for each of its tokens.
TEST(FreeText, OfPatternsCostsNoWalk) {
  std::vector<std::string> words;
  for (char a = 'a'; a < 'k'; ++a) {
    for (char b = 'a'; b < 'k'; ++b) {
      for (char c = 'a'; c < 'k'; ++c) words.push_back({a, b, c});
    }
  }
  const ListTokenizer tokenizer(words);
  const auto tree = TokenTree::make(tokenizer);
  const auto cost = [&](const std::string& schema, std::string_view text) {
    Automaton automaton = automaton_of(schema);
    std::vector<uint64_t> mask(tree->words());
    return tree->mark(automaton, after(automaton, automaton.start(), text), mask);
  };
  const size_t walk = cost(R"({"type":"string","pattern":"^[a-z]*$"})", "\"");
  EXPECT_GT(walk, words.size());
  const size_t free = cost(R"({"type":"string"})", "\"");
  for (const auto& [schema, text] : std::vector<std::pair<const char*, std::string>>{
           {R"({"type":"string","pattern":"^(?:\\S+\\s+){0,99}\\S+$","maxLength":300})", "\"a b"},
           {R"({"type":"string","pattern":"20\\d{2}-\\w{3}"})", "\"2"},
           {R"({"type":"string","pattern":"^(.*)$"})", "\""},
           {R"({"type":"string","pattern":"^.{1,200}$"})", "\"a"},
           {R"({"type":"object","properties":{"abc":{}},"additionalProperties":{"type":"null"}})",
            "{\"ab"}}) {
    EXPECT_LT(cost(schema, text), 2 * free) << schema;
  }
  EXPECT_GT(cost(R"({"type":"string","pattern":"^(?:\\S+\\s+){0,99}\\S+$","maxLength":30})", "\"a b"),
            words.size());
}

}  // namespace
}  // namespace fulmar::testing
