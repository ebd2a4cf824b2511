// Grammars in GBNF and Lark, regular expressions and choices as forms of answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/taken.h"

namespace fulmar::testing {
namespace {

using Form = Result<std::shared_ptr<const Grammar>>;

struct Texts {
  std::string grammar;
  std::vector<std::string> taken;
  std::vector<std::string> refused;
};

void expect_texts(const Form& form, const Texts& texts) {
  ASSERT_TRUE(form) << texts.grammar << "\n" << form.error().text;
  for (const std::string& text : texts.taken)
    EXPECT_TRUE(takes(*form, text)) << texts.grammar << "\n" << text;
  for (const std::string& text : texts.refused)
    EXPECT_FALSE(takes(*form, text)) << texts.grammar << "\n" << text;
}

class Gbnf : public ::testing::TestWithParam<Texts> {};
TEST_P(Gbnf, TakesTheTextsOfItsGrammar) {
  expect_texts(gbnf_form(AnswerStart::plain, GetParam().grammar), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Grammars, Gbnf,
    ::testing::Values(
        Texts{"root ::= \"yes\" | \"no\"\n", {"yes", "no"}, {"", "yesno", "ye", " yes"}},
        Texts{"# a comment\nroot ::= item+ # behind\nitem ::= \"- \" [^\\n]+ \"\\n\"\n",
              {"- a\n", "- a\n- b\xC3\xA9\n"},
              {"", "- \n", "- a"}},
        Texts{"root ::= (\n  \"a\" |\n  \"b\"\n) \"c\"\n", {"ac", "bc"}, {"a", "c"}},
        Texts{"root ::= \"a\" |\n  \"b\"\n", {"a", "b"}, {"ab"}},
        Texts{"root ::= [a-c]{2,3} [0-9]? .", {"abx", "abc1x", "ab\xF0\x9F\x98\x80"}, {"a1x", "ab"}},
        Texts{"root ::= [\\x41\\u00e9\\U0001F600]*",
              {"", "A", "\xC3\xA9",
               "\xF0\x9F\x98\x80"
               "A"},
              {"a"}},
        Texts{"root ::= \"\\\"\" [^\"\\\\]* \"\\\"\"", {"\"\"", "\"abc\""}, {"\"a\\\"", "\"a"}},
        Texts{"root ::= expr\nexpr ::= term ((\"+\" | \"-\") term)*\nterm ::= [0-9]+ | \"(\" expr \")\"",
              {"1", "1+2", "(1-2)+3"},
              {"1+", "(1"}},
        // Recursion on the left, empty rules within loops, ambiguity.
        Texts{"root ::= root \"+\" num | num\nnum ::= [0-9]+", {"1", "1+2", "1+2+34"}, {"", "+1", "1+"}},
        Texts{"root ::= root | \"a\"", {"a"}, {"", "aa"}},
        Texts{"root ::= (\"a\"* | \"b\"?)* \"c\"", {"c", "aac", "abac"}, {"", "ab"}},
        Texts{"root ::= e e e \"x\" e\ne ::= \"\" | \"a\"", {"x", "aaax", "axa"}, {"aaaax", "xaa"}},
        Texts{"root ::= ((\"a\"?){2,5})+ \"b\"", {"b", "aaaaaaab"}, {"a"}},
        Texts{"root ::= s\ns ::= \"\" | \"(\" s \")\" s", {"", "()", "(())()"}, {"(", "())"}},
        Texts{"root ::= (\"a\" | \"a\" | \"aa\")*", {"", "aaaa"}, {"b"}},
        Texts{"root ::= [ab]{100,200}",
              {std::string(100, 'a'), std::string(200, 'b')},
              {std::string(99, 'a'), std::string(201, 'a')}}));

class Lark : public ::testing::TestWithParam<Texts> {};
TEST_P(Lark, TakesTheTextsOfItsGrammar) {
  expect_texts(lark_form(AnswerStart::plain, GetParam().grammar), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Grammars, Lark,
    ::testing::Values(
        Texts{"start: \"yes\" | \"no\"", {"yes", "no"}, {"", "maybe"}},
        Texts{"?start: sum\n?sum: product\n  | sum \"+\" product -> add\n  | sum \"-\" product -> "
              "sub\n?product: NUMBER\n"
              "  | \"(\" sum \")\"\n%import common.NUMBER\n%import common.WS_INLINE\n%ignore WS_INLINE\n",
              {"1", "1+2.5", " 1 - ( 2 + 3 ) ", "1e5"},
              {"", "1+", "1 2", "(1"}},
        Texts{"start: WORD~2..3 \"!\"i\nWORD: (\"a\"..\"c\")+ // letters\n", {"ab!", "abc!"}, {"a!", "!"}},
        Texts{"start: [\"very\" _SP] \"good\"i\n_SP: /[ ]+/",
              {"good", "GoOd", "very  good"},
              {"verygood", "very good "}},
        Texts{"start: item (\",\" item)*\nitem: CNAME \"=\" ESCAPED_STRING\n%import common (CNAME, "
              "ESCAPED_STRING)\n",
              {"a=\"b\"", "a=\"\",c_1=\"\\\"\""},
              {"a=b", "a=\"b\","}},
        Texts{"start: A{2} B |\n\nA: \"a\"\nB.2: /b{2,}/", {"aabb", ""}, {"aab", "abb"}},
        Texts{"start: x*\nx: | \"a\" x", {"", "aa"}, {"b"}}));

// Places of a short text as bits.
using Places = uint32_t;

// One language in three notations, and where a part of a text that begins at one of some places may end.
struct Notations {
  std::string gbnf;
  std::string lark;
  std::string regex;
  std::function<Places(const std::string& text, Places from)> ends;
};

Notations one_character(std::string gbnf, std::string lark, std::string regex,
                        std::function<bool(char)> fits) {
  return {std::move(gbnf), std::move(lark), std::move(regex), [fits](const std::string& text, Places from) {
            Places ends = 0;
            for (size_t i = 0; i < text.size(); ++i) {
              if ((from >> i & 1) && fits(text[i])) ends |= Places{2} << i;
            }
            return ends;
          }};
}

// `part` at least `least` times, at most `most`.
Notations repeated(const Notations& part, const std::string& sign, const std::string& lark_sign, int least,
                   int most) {
  return {"(" + part.gbnf + ")" + sign, "(" + part.lark + ")" + lark_sign, "(?:" + part.regex + ")" + sign,
          [ends = part.ends, least, most](const std::string& text, Places from) {
            Places all = least == 0 ? from : 0;
            for (int times = 1; times <= most; ++times) {
              from = ends(text, from);
              if (times >= least) all |= from;
            }
            return all;
          }};
}

constexpr int kLongestText = 5;
constexpr int kOften = kLongestText + 1;  // as good as without end: beyond, a loop takes nothing new

Notations random_notations(std::mt19937& random, int depth) {
  const auto inner = [&] { return random_notations(random, depth - 1); };
  switch (random() % (depth > 0 ? 8 : 3)) {
    case 0: {
      const char letter = "abc"[random() % 3];
      const std::string quoted = fmt::format("\"{}\"", letter);
      return one_character(quoted, quoted, std::string(1, letter), [letter](char c) { return c == letter; });
    }
    case 1:
      return one_character("[^ab]", "/[^ab]/", "[^ab]", [](char c) { return c != 'a' && c != 'b'; });
    case 2:
      return one_character("[a-b]", "\"a\"..\"b\"", "[a-b]", [](char c) { return c == 'a' || c == 'b'; });
    case 3: {
      const Notations one = inner(), other = inner();
      return {one.gbnf + " " + other.gbnf, one.lark + " " + other.lark, one.regex + other.regex,
              [one = one.ends, other = other.ends](const std::string& text, Places from) {
                return other(text, one(text, from));
              }};
    }
    case 4: {
      const Notations one = inner(), other = inner();
      return {"(" + one.gbnf + " | " + other.gbnf + ")", "(" + one.lark + " | " + other.lark + ")",
              "(?:" + one.regex + "|" + other.regex + ")",
              [one = one.ends, other = other.ends](const std::string& text, Places from) {
                return one(text, from) | other(text, from);
              }};
    }
    case 5:
      return repeated(inner(), "{1,3}", "~1..3", 1, 3);
    case 6:
      return repeated(inner(), "?", "?", 0, 1);
    default:
      return random() % 2 ? repeated(inner(), "*", "*", 0, kOften) : repeated(inner(), "+", "+", 1, kOften);
  }
}

TEST(RandomGrammars, SayInGbnfAndLarkWhatARegularExpressionSays) {
  std::mt19937 random(13);
  for (int round = 0; round < 800; ++round) {
    const Notations one = random_notations(random, 4);
    const auto gbnf = gbnf_form(AnswerStart::plain, "root ::= " + one.gbnf);
    const auto lark = lark_form(AnswerStart::plain, "start: " + one.lark);
    const auto regex = regex_form(AnswerStart::plain, one.regex);
    ASSERT_TRUE(gbnf) << one.gbnf << "\n" << gbnf.error().text;
    ASSERT_TRUE(lark) << one.lark << "\n" << lark.error().text;
    ASSERT_TRUE(regex) << one.regex << "\n" << regex.error().text;
    for (int i = 0; i < 10; ++i) {
      std::string text;
      for (unsigned length = random() % (kLongestText + 1); length > 0; --length)
        text += "abcd"[random() % 4];
      const bool fits = one.ends(text, 1) >> text.size() & 1;
      ASSERT_EQ(takes(*gbnf, text), fits) << one.gbnf << " on '" << text << "'";
      ASSERT_EQ(takes(*lark, text), fits) << one.lark << " on '" << text << "'";
      ASSERT_EQ(takes(*regex, text), fits) << one.regex << " on '" << text << "'";
    }
  }
}

// Whatever text is sent as a grammar is compiled, or refused by a text.
TEST(RandomGrammars, BrokenOnesAreRefused) {
  std::mt19937 random(17);
  static const std::string kPieces[] = {"root",
                                        "start",
                                        " ::= ",
                                        ": ",
                                        "\"a\"",
                                        "\"",
                                        "[a-z]",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "|",
                                        "*",
                                        "+",
                                        "?",
                                        "{2}",
                                        "{",
                                        "}",
                                        "~",
                                        "~2..3",
                                        "..",
                                        "/a+/",
                                        "/",
                                        "\n",
                                        " ",
                                        "x",
                                        "X",
                                        "%ignore ",
                                        "%import common.WS",
                                        "->",
                                        "\\",
                                        "#",
                                        ".",
                                        "\xC3\xA9",
                                        "\xFF",
                                        "<",
                                        "!"};
  for (int round = 0; round < 5000; ++round) {
    std::string text = round % 2 ? "root ::= " : "start: ";
    for (unsigned pieces = random() % 14; pieces > 0; --pieces)
      text += kPieces[random() % std::size(kPieces)];
    for (const Form& form : {gbnf_form(AnswerStart::plain, text), lark_form(AnswerStart::plain, text)}) {
      EXPECT_TRUE(form || !form.error().text.empty()) << text;
    }
  }
}

std::string gbnf_error(const std::string& text) {
  const auto form = gbnf_form(AnswerStart::plain, text);
  return form ? "" : form.error().text;
}

std::string lark_error(const std::string& text) {
  const auto form = lark_form(AnswerStart::plain, text);
  return form ? "" : form.error().text;
}

TEST(Gbnf, NamesTheLineOfAFault) {
  for (const auto& [grammar, wanted] :
       {std::pair{"root ::= \"a", "line 1: a '\"' that is never closed"},
        {"\nroot = \"a\"", "line 2: wanted '::='"},
        {"root ::= (\"a\"", "a '(' that is never closed"},
        {"root ::= missing", "rule 'missing' is used and never defined"},
        {"a ::= \"a\"", "has no rule 'root'"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: rule 'root' is defined twice"},
        {"root ::= a \"x\"\na ::= root \"y\"", "begins with itself through others"},
        {"root ::= a root\na ::= \"x\"?", "begins with itself"},
        {"root ::= \"a\" root", "nothing ever ends"},
        {"root ::= <think>", "a token"},
        {"root ::= [z-a]", "wrong order"},
        {"root ::= \"a\"{5,2}", "a count from 5 to 2"},
        {"root ::= \"a\"{999999}", "at most"},
        {"root ::= \"\\q\"", "unknown escape"}}) {
    const std::string text = gbnf_error(grammar);
    EXPECT_TRUE(text.find(wanted) != std::string::npos || (std::string(wanted) == "at most" && !text.empty()))
        << grammar << ": " << text;
  }
  EXPECT_NE(gbnf_error("root ::= " + std::string(100, '(') + "\"a\"" + std::string(100, ')')), "");
}

TEST(Lark, NamesWhatItDoesNotTake) {
  for (const auto& [grammar, wanted] : {std::pair{"start: /(a)\\1/", "a reference back"},
                                        {"start: \"a\"\n%declare A", "a directive"},
                                        {"start: \"a\"\n%import python.NAME", "another module"},
                                        {"start: /a/i", "a flag"},
                                        {"start: pair{\"a\"}", "a template"},
                                        {"start \"a\"", "wanted ':'"}}) {
    EXPECT_NE(lark_error(grammar).find(wanted), std::string::npos) << grammar << ": " << lark_error(grammar);
  }
}

TEST(Gbnf, LoopsAndWidthsAreBounded) {
  std::string nested = "\"a\"";
  for (int i = 0; i < 40; ++i) nested = "(" + nested + ")*";
  EXPECT_EQ(gbnf_error("root ::= " + nested), "");
  std::string optional;
  for (int i = 0; i < 3000; ++i) optional += "\"a\"? ";
  EXPECT_NE(gbnf_error("root ::= " + optional + optional + optional), "the ways of a text are bounded");
  std::string doubled = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) doubled += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  EXPECT_EQ(gbnf_error(doubled + "r60 ::= \"a\""), "");
  Budget budget(Budget::Limits{1 << 19, 1000, 1000, 1000});
  const auto form = gbnf_form(AnswerStart::plain, "root ::= " + optional, {.budget = &budget});
  ASSERT_FALSE(form);
  EXPECT_NE(form.error().text.find("units of work"), std::string::npos) << form.error().text;
}

TEST(RegexForm, TakesTheWholeText) {
  expect_texts(regex_form(AnswerStart::plain, "(yes|no)[.!]?"),
               {"regex", {"yes", "no!"}, {"", " yes", "yes?!", "say yes"}});
  expect_texts(regex_form(AnswerStart::plain, "\\d{3}-\\d{4}|\"[^\"]*\""),
               {"regex", {"555-1234", "\"a\nb\""}, {"555-123"}});
  expect_texts(regex_form(AnswerStart::open_think, "a+"),
               {"regex", {"so</think>aa", "</think>a"}, {"aa", "so</think>\n\naa", "</think> a"}});
  expect_texts(regex_form(AnswerStart::open_tag, "\\s?a"), {"regex", {"> a", ">a", ">\na"}, {"a", ">\n\na"}});
  EXPECT_FALSE(regex_form(AnswerStart::plain, "a(?!a)a"));
}

TEST(ChoiceForm, TakesOneOfTheTexts) {
  expect_texts(choice_form(AnswerStart::plain, {"positive", "posit", "a \"b\"\n"}),
               {"choice", {"positive", "posit", "a \"b\"\n"}, {"", "positiv", " posit"}});
  EXPECT_FALSE(choice_form(AnswerStart::plain, {}));
  EXPECT_FALSE(choice_form(AnswerStart::plain, {"a", ""}));
  EXPECT_FALSE(choice_form(AnswerStart::plain, {"\xFF"}));
}

}  // namespace
}  // namespace fulmar::testing
