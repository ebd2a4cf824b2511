// Random patterns against a backtracking matcher: which strings they take, and that their grammars are whole.
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/taken.h"
#include "grammar/text_automaton.h"
#include "net/json_writer.h"

namespace fulmar::testing {
namespace {

using Random = std::mt19937;

template <class T, size_t N>
const T& one_of(const T (&list)[N], Random& random) {
  return list[random() % N];
}

// A character or a class; many that together take every character.
std::string random_atom(Random& random) {
  static const std::string kAtoms[] = {"a",
                                       "b",
                                       "\\n",
                                       ".",
                                       "[ab]",
                                       "[^a]",
                                       "[^\\n]",
                                       "\\d",
                                       "\\D",
                                       "\\w",
                                       "\\W",
                                       "\\s",
                                       "\\S",
                                       "[\\s\\S]",
                                       "[\\d\\D]",
                                       "[\\w\\W]",
                                       "[^\\s\\S]",
                                       "[\\x00-\\x7f]",
                                       "[\\u0080-\\uffff]",
                                       "[^\\x00-\\x7f]",
                                       "\"",
                                       "\\\\"};
  return one_of(kAtoms, random);
}

// Patterns that both this compiler and std::regex understand.
std::string random_pattern(Random& random, int depth) {
  static const std::string kQuantifiers[] = {"", "", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}"};
  switch (random() % (depth > 0 ? 7 : 2)) {
    case 0:
      if (random() % 5 == 0) return random() % 2 ? "^" : "$";
      return random_atom(random);
    case 1:
      return random_atom(random) + one_of(kQuantifiers, random);
    case 2:
    case 3:
      return random_pattern(random, depth - 1) + random_pattern(random, depth - 1);
    case 4:
      return "(?:" + random_pattern(random, depth - 1) + "|" + random_pattern(random, depth - 1) + ")";
    case 5:
      return "(?:" + random_pattern(random, depth - 1) + ")" + one_of(kQuantifiers, random);
    default:
      return (random() % 2 ? "(?=" : "(?!") + random_pattern(random, depth - 1) + ")";
  }
}

std::string random_text(Random& random) {
  static const std::string kCharacters[] = {"a", "b", "0", "\n", " ", "-", "\"", "\\"};
  std::string text;
  for (unsigned length = random() % 5; length > 0; --length) text += one_of(kCharacters, random);
  return text;
}

// Every state that some text reaches has a way on, or may end.
void expect_no_dead_end(Automaton& automaton, const std::string& pattern) {
  constexpr size_t kStates = 200;
  for (size_t at = 0; at < std::min(automaton.states(), kStates); ++at) {
    const auto state = static_cast<Automaton::State>(at);
    bool goes_on = automaton.accepting(state);
    for (unsigned byte = 0; byte < 256; ++byte) {
      goes_on = automaton.step(state, static_cast<uint8_t>(byte)) != Automaton::kDead || goes_on;
    }
    EXPECT_TRUE(goes_on) << pattern;
  }
}

TEST(RandomPatterns, TakeWhatABacktrackingMatcherFinds) {
  Random random(41);
  int compared = 0;
  for (int round = 0; round < 2500; ++round) {
    std::string pattern = random_pattern(random, 3);
    if (random() % 3 == 0) pattern = "^" + pattern;
    if (random() % 3 == 0) pattern += "$";
    const auto tree = parse_pattern(pattern);
    if (!tree) continue;  // a lookahead in a place that is refused by name
    Budget budget;
    const auto texts = TextAutomaton::of_pattern(*tree, budget);
    if (!texts) continue;
    const auto whole = TextAutomaton::of_whole_pattern(*tree, budget);
    if (!whole) continue;
    const std::regex oracle(pattern);
    for (int i = 0; i < 8; ++i) {
      const std::string text = random_text(random);
      ASSERT_EQ(texts->takes(text), std::regex_search(text, oracle))
          << pattern << " on " << json_quoted(text);
      ASSERT_EQ(whole->takes(text), std::regex_match(text, std::regex("(?:" + pattern + ")")))
          << pattern << " as " << json_quoted(text);
      compared++;
    }
    if (texts->empty()) continue;
    const auto grammar = std::make_shared<Grammar>(budget);
    ASSERT_TRUE(grammar->finish(grammar->rule(texts->quoted(*grammar, grammar->end())))) << pattern;
    Automaton automaton(grammar);
    for (int i = 0; i < 8; ++i) {
      const std::string text = random_text(random);
      ASSERT_EQ(takes(automaton, json_quoted(text)), texts->takes(text))
          << pattern << " on " << json_quoted(text);
    }
    expect_no_dead_end(automaton, pattern);
  }
  EXPECT_GT(compared, 10'000);
}

// Sets that together cover all characters, whichever way.
TEST(RandomPatterns, SetsThatCoverAllCharactersLeaveNone) {
  for (const char* pattern :
       {"[\\s\\S]+", "[\\d\\D]", "[^\\n]|\\n", "[\\x00-\\u{10FFFF}]", "[\\W\\w]*?[\\s\\S]b", "[^]", "\\S|\\s",
        "a[\\s\\S]", "(\\u{1F600}){2,}(?!([\\s\\S]){0,7}[\\s\\S])", "^[\\s\\S]+$",
        "[\\u0000-\\ud7ff\\ue000-\\u{10ffff}]"}) {
    Budget budget;
    const auto tree = parse_pattern(pattern);
    ASSERT_TRUE(tree) << pattern << ": " << tree.error().text;
    const auto texts = TextAutomaton::of_pattern(*tree, budget);
    ASSERT_TRUE(texts) << pattern << ": " << texts.error().text;
    const auto grammar = std::make_shared<Grammar>(budget);
    ASSERT_TRUE(grammar->finish(grammar->rule(texts->quoted(*grammar, grammar->end())))) << pattern;
    Automaton automaton(grammar);
    expect_no_dead_end(automaton, pattern);
  }
}

}  // namespace
}  // namespace fulmar::testing
