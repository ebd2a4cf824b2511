// Keywords in pairs, whatever they say of each other: no text is taken that one of them refuses, unless a
// warning names it; none is refused that all of them let be, where a schema compiles.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "grammar/answer_form.h"
#include "grammar/decimal.h"
#include "grammar/schema_values.h"
#include "grammar/taken.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar::testing {
namespace {

// A keyword with its value, and what it lets be.
struct Word {
  std::string name, value;
  std::function<bool(const JsonValue&)> fits;
};

std::string schema_of(const std::vector<const Word*>& words) {
  std::string parts;
  for (const Word* word : words) {
    parts += fmt::format(R"({}{{"{}":{}}})", parts.empty() ? "" : ",", word->name, word->value);
  }
  return parts;
}

void check(const std::string& schema, const std::vector<const Word*>& words,
           const std::vector<std::string>& texts) {
  for (const bool strict : {true, false}) {
    Loosened loosened;
    const FormOptions options{.strict = strict, .loosened = &loosened};
    const auto form = json_schema_form(AnswerStart::plain, *parse_json(schema), options);
    std::string told = form ? std::string() : form.error().text;
    for (const std::string& text : loosened.texts()) told += text;
    const auto names = [&](const Word* word) {
      return told.find("'" + word->name + "'") != std::string::npos;
    };
    const bool named = std::any_of(words.begin(), words.end(), names);
    const bool empty = told.find("admits no value") != std::string::npos;
    EXPECT_TRUE(form || (strict && (named || empty))) << schema << ": " << told;
    for (const std::string& text : texts) {
      const JsonValue value = *parse_json(text);
      const bool taken = form && takes(*form, text);
      const Word* refusing = nullptr;
      for (const Word* word : words) refusing = word->fits(value) ? refusing : word;
      const bool excused = !strict && (named || empty);
      if (refusing && taken && !excused) {
        ADD_FAILURE() << schema << " takes " << text << ", which '" << refusing->name
                      << "' refuses; told: " << told;
      }
      if (!refusing && !taken) ADD_FAILURE() << schema << " does not take " << text << "; told: " << told;
    }
  }
}

// Every pair of the words: side by side where their names differ, and in two schemas that both count.
void check_pairs(const std::string& beside, const std::vector<Word>& words,
                 const std::vector<std::string>& texts) {
  for (const Word& one : words) {
    for (const Word& other : words) {
      const std::vector<const Word*> pair{&one, &other};
      check(fmt::format(R"({{{},"allOf":[{}]}})", beside, schema_of(pair)), pair, texts);
      if (one.name == other.name) continue;
      check(fmt::format(R"({{{},"{}":{},"{}":{}}})", beside, one.name, one.value, other.name, other.value),
            pair, texts);
    }
  }
}

std::function<bool(const JsonValue&)> matching(const std::string& pattern) {
  return [expression = std::regex(pattern)](const JsonValue& value) {
    return std::regex_search(value.as_string(), expression);
  };
}

std::function<bool(const JsonValue&)> among(const std::string& list) {
  return [listed = parse_json(list)->as_array()](const JsonValue& value) {
    return std::any_of(listed.begin(), listed.end(),
                       [&](const JsonValue& one) { return same_text(one) == same_text(value); });
  };
}

std::function<bool(const JsonValue&)> longer(size_t least, size_t most) {
  return [=](const JsonValue& value) {
    return value.as_string().size() >= least && value.as_string().size() <= most;
  };
}

TEST(KeywordPairs, OfStringsAreKeptOrNamed) {
  constexpr size_t kAny = 1000;
  const std::string lists[] = {R"(["2024-02-29","10.0.0.1","abc"])",
                               R"(["2023-02-29","10.0.0.256","25:00:00Z"])",
                               R"(["","QUJD","QUJ?","a@b.de"])"};
  std::vector<Word> words = {
      {"format", R"("date")", matching("^(2024-02-29|1999-12-31)$")},
      {"format", R"("ipv4")", matching("^10\\.0\\.0\\.1$")},
      {"format", R"("email")", matching("@")},
      {"format", R"("uuid")", matching("^[0-9a-f]{8}-")},
      {"format", R"("time")", matching("^23:59:59Z$")},
      {"contentEncoding", R"("base64")", matching("^(QUJD)?$")},
      {"pattern", R"("^[0-9]")", matching("^[0-9]")},
      {"pattern", R"("^[a-z]+$")", matching("^[a-z]+$")},
      {"pattern", R"("-")", matching("-")},
      {"minLength", "11", longer(11, kAny)},
      {"maxLength", "10", longer(0, 10)},
      {"maxLength", "3", longer(0, 3)},
      {"const", R"("2024-02-29")", among(R"(["2024-02-29"])")},
      {"const", R"("2024-02-30")", among(R"(["2024-02-30"])")},
  };
  for (const std::string& list : lists) words.push_back({"enum", list, among(list)});
  check_pairs(
      R"("type":"string")", words,
      {R"("2024-02-29")", R"("1999-12-31")", R"("2023-02-29")", R"("2024-02-30")", R"("10.0.0.1")",
       R"("10.0.0.256")", R"("a@b.de")", R"("00000000-0000-0000-0000-0123456789ab")", R"("23:59:59Z")",
       R"("25:00:00Z")", R"("abc")", R"("")", R"("QUJD")", R"("QUJ?")", R"("2024-02-29T")"});
}

// To fit one alternative alone, a member must miss the other's format: where both ask for the same, no way to
// do so is there, and nothing contradicts.
TEST(KeywordPairs, AFormatInTwoAlternativesIsNoContradiction) {
  const auto form = json_schema_form(
      AnswerStart::plain,
      *parse_json(
          R"({"oneOf":[)"
          R"({"type":"object","properties":{"a":{"type":"string","pattern":"^a$"},)"
          R"("at":{"type":"string","format":"date"}}},)"
          R"({"type":"object","properties":{"at":{"type":"string","format":"date"},"n":{"type":"null"}}}]})"),
      {});
  ASSERT_TRUE(form.ok()) << form.error().text;
  EXPECT_FALSE(takes(*form, R"({"at":"2024-02-29"})")) << "both alternatives take it";
}

std::function<bool(const JsonValue&)> range(const char* least, const char* most, bool above, bool below) {
  NumberRange range{Decimal::of(least), Decimal::of(most), above, below};
  return [range](const JsonValue& value) { return range.has(Decimal::of(value)); };
}

TEST(KeywordPairs, OfNumbersAreKeptOrNamed) {
  constexpr const char* kLow = "-1e308";
  constexpr const char* kHigh = "1e308";
  const auto multiple_of_quarters = [](int64_t quarters) {
    return [=](const JsonValue& value) {
      const Decimal number = Decimal::of(value);
      if (number.whole.size() > 15) return std::string_view(number.whole).ends_with("00000");
      const double times = value.as_double() * 4 / static_cast<double>(quarters);
      return times == static_cast<double>(static_cast<int64_t>(times));
    };
  };
  const std::string lists[] = {"[2147483647,2147483648,0.5]", "[-2147483648,-2147483649,7,-0.25]"};
  std::vector<Word> words = {
      {"format", R"("int32")", range("-2147483648", "2147483647", false, false)},
      {"minimum", "-2147483649", range("-2147483649", kHigh, false, false)},
      {"exclusiveMinimum", "-2147483649", range("-2147483649", kHigh, true, false)},
      {"exclusiveMinimum", "-2147483648", range("-2147483648", kHigh, true, false)},
      {"maximum", "2147483647", range(kLow, "2147483647", false, false)},
      {"exclusiveMaximum", "2147483648", range(kLow, "2147483648", false, true)},
      {"exclusiveMaximum", "-0.25", range(kLow, "-0.25", false, true)},
      {"minimum", "0.5", range("0.5", kHigh, false, false)},
      {"minimum", "3000000000", range("3000000000", kHigh, false, false)},
      {"multipleOf", "0.25", multiple_of_quarters(1)},
      {"multipleOf", "7", multiple_of_quarters(28)},
      {"const", "7", among("[7]")},
      {"const", "2147483648", among("[2147483648]")},
  };
  for (const std::string& list : lists) words.push_back({"enum", list, among(list)});
  check_pairs(R"("type":"number")", words,
              {"-2147483649", "-2147483648", "-2147483647", "2147483646", "2147483647", "2147483648", "0",
               "7", "-7", "0.5", "-0.25", "-0.5", "3000000000", "2999999999", "3500000000"});
}

}  // namespace
}  // namespace fulmar::testing
