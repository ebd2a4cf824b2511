// Bounds of numbers, of any length and exactly, against arithmetic on decimal texts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/number_rules.h"
#include "grammar/taken.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

// Null: no number is left.
std::shared_ptr<const Grammar> numbers(const NumberRange& range, bool whole,
                                       std::optional<DecimalStep> step = std::nullopt) {
  Budget budget;
  auto grammar = std::make_shared<Grammar>(budget);
  JsonRules json(*grammar);
  NumberRules rules(*grammar, json);
  const Place end = grammar->end();
  const auto place = step    ? *rules.multiples(*step, range, whole, end)
                     : whole ? rules.whole(range, end)
                             : rules.between(range, false, end);
  if (!place) return nullptr;
  EXPECT_TRUE(grammar->finish(grammar->rule(*place)).ok());
  return grammar;
}

// Moves the point by the power of ten that the number ends with.
std::string without_power(const std::string& text) {
  const size_t e = text.find_first_of("eE");
  if (e == std::string::npos) return text;
  std::string number = text.substr(0, e);
  const bool minus = number.front() == '-';
  if (minus) number.erase(0, 1);
  const int power = std::stoi(text.substr(e + 1));
  if (number.find('.') == std::string::npos) number += '.';
  for (int i = 0; i < std::abs(power); ++i) {
    if (power < 0 && number.find('.') < 2) number.insert(0, "0");
    if (power > 0 && number.back() == '.') number += '0';
    const size_t point = number.find('.');
    std::swap(number[point], number[power < 0 ? point - 1 : point + 1]);
  }
  if (number.back() == '.') number += '0';
  return (minus ? "-" : "") + number;
}

// Below 0, 0 or above: by writing both as long as the longer one.
int compare(std::string one, std::string other) {
  one = without_power(one);
  other = without_power(other);
  const bool minus_one = one.front() == '-', minus_other = other.front() == '-';
  if (minus_one != minus_other) return minus_one ? -1 : 1;
  if (minus_one) return compare(other.substr(1), one.substr(1));
  const auto behind = [](const std::string& text) {
    const size_t point = text.find('.');
    return point == std::string::npos ? 0 : text.size() - point - 1;
  };
  const size_t digits = std::max(behind(one), behind(other));
  for (std::string* text : {&one, &other}) {
    text->append(digits - behind(*text), '0');
    if (const size_t point = text->find('.'); point != std::string::npos) text->erase(point, 1);
  }
  const size_t length = std::max(one.size(), other.size());
  one.insert(0, length - one.size(), '0');
  other.insert(0, length - other.size(), '0');
  return one.compare(other);
}

class Drawing {
 public:
  explicit Drawing(uint32_t seed) : random_(seed) {}
  size_t below(size_t count) { return random_() % count; }

  std::string number(bool whole) {
    std::string text = digits(1 + below(40));
    if (!whole && below(3) > 0) text += "." + digits(1 + below(15)) + "1";
    if (!whole && text.size() > text.find('.') + 16) text.resize(text.find('.') + 16);
    return with_sign(text, below(2) == 0);
  }
  // As JSON may write a power of ten behind it.
  std::string with_power(const std::string& text) {
    static constexpr const char* kSigns[] = {"e", "E", "e+", "E+", "e-", "E-"};
    return text + kSigns[below(6)] + std::to_string(below(below(2) == 0 ? 4 : 100));
  }
  // Differs from it in its last digits, or its length.
  std::string near(std::string text, bool whole) {
    const bool negative = text.front() == '-';
    if (negative) text.erase(0, 1);
    const size_t changed = 1 + below(std::min<size_t>(3, text.size()));
    for (size_t i = 0; i < changed; ++i) {
      char& digit = text[text.size() - 1 - below(std::min<size_t>(3, text.size()))];
      if (digit != '.') digit = static_cast<char>('0' + below(10));
    }
    const bool point = text.find('.') != std::string::npos;
    if (!point && below(6) == 0) text.pop_back();
    if (!point && below(6) == 0) text += static_cast<char>('0' + below(10));
    if (!point && !whole && below(4) == 0) text += "." + digits(2);
    const size_t first = text.find_first_not_of('0');
    text.erase(0, std::min(first, text.size()));
    if (text.empty() || text.front() == '.') text.insert(0, "0");
    return with_sign(text, negative != (below(12) == 0));
  }

 private:
  std::string digits(size_t count) {
    std::string text(1, static_cast<char>('1' + below(9)));
    const bool nines = below(5) == 0;
    while (text.size() < count) text += nines ? '9' : static_cast<char>('0' + below(3) * below(5));
    return text;
  }
  static std::string with_sign(std::string text, bool negative) {
    const bool zero = text.find_first_of("123456789") == std::string::npos;
    return negative && !zero ? "-" + text : text;
  }
  std::mt19937 random_;
};

TEST(NumberBounds, OfAnyLengthAreKeptToTheDigit) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Drawing draw(seed);
    const bool whole = draw.below(2) == 0;
    std::string least = draw.number(whole), most = draw.number(whole);
    if (draw.below(3) == 0) most = draw.near(least, whole);
    if (compare(least, most) > 0) std::swap(least, most);
    NumberRange range{Decimal::of(least), Decimal::of(most), draw.below(2) == 0, draw.below(2) == 0};
    const bool below = draw.below(5) > 0, above = draw.below(5) > 0;  // whether there is such a bound
    if (!below) range.least = Decimal::beyond_all(true);
    if (!above) range.most = Decimal::beyond_all(false);
    const auto grammar = numbers(range, whole);
    for (int i = 0; i < 30; ++i) {
      const std::string text = i == 0 ? least : i == 1 ? most : draw.near(i % 2 == 0 ? least : most, whole);
      const int low = compare(text, least), high = compare(text, most);
      const bool fits = (!below || low > 0 || (low == 0 && !range.above_least)) &&
                        (!above || high < 0 || (high == 0 && !range.below_most));
      const bool taken = grammar && takes(grammar, text);
      // Where there is no bound, numbers are not written in any length.
      if (taken || (below && above)) {
        EXPECT_EQ(taken, fits) << "seed " << seed << ": " << text << " of " << (below ? least : "-") << " to "
                               << (above ? most : "-") << (range.above_least ? ", above" : "")
                               << (range.below_most ? ", below" : "");
      }
    }
    if (!above || !below || compare(least, most) < 0) continue;
    EXPECT_EQ(grammar != nullptr, !range.above_least && !range.below_most) << seed;
  }
}

// Powers of ten are written where they cannot leave the bounds, and never beyond what a double holds.
TEST(NumberBounds, HoldForNumbersWithAPowerOfTen) {
  size_t taken = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Drawing draw(seed);
    std::string bound = draw.below(4) == 0 ? "0" : draw.number(false);
    if (draw.below(4) == 0)
      bound = std::to_string(draw.below(9) + 1) + "e" + std::to_string(200 + draw.below(108));
    const bool lower = draw.below(2) == 0, excluded = draw.below(2) == 0;
    NumberRange range;
    if (lower) range.raise_least(Decimal::of(bound), excluded);
    if (!lower) range.lower_most(Decimal::of(bound), excluded);
    const auto grammar = numbers(range, false);
    ASSERT_TRUE(grammar) << seed;
    Automaton automaton(grammar);
    const std::string plain = without_power(bound);
    for (int i = 0; i < 60; ++i) {
      const std::string text = draw.with_power(i % 2 == 0 ? plain : draw.near(plain, false));
      if (!takes(automaton, text)) continue;
      ++taken;
      const int order = compare(text, plain);
      EXPECT_TRUE(order == 0 ? !excluded : (order > 0) == lower)
          << "seed " << seed << ": " << text << (lower ? " from " : " to ") << bound;
      EXPECT_TRUE(std::isfinite(std::strtod(text.c_str(), nullptr))) << text << " of " << bound;
    }
  }
  EXPECT_GT(taken, 1000u);
}

// What is taken, digit by digit at random, is no number that a double does not hold.
TEST(NumberBounds, NothingBeyondADoubleIsWritten) {
  for (const char* least : {"0", "1e200", "1e300", "9e307", "1e308", "1.7976931348623157e308"}) {
    NumberRange range;
    range.raise_least(Decimal::of(least), false);
    for (const bool whole : {false, true}) {
      const auto grammar = numbers(range, whole);
      ASSERT_TRUE(grammar) << least;
      Automaton automaton(grammar);
      for (const char digit : {'9', '1'}) {  // as many as are taken
        std::string text;
        Automaton::State state = automaton.start();
        const auto add = [&](char byte) {
          const auto next = automaton.step(state, static_cast<uint8_t>(byte));
          if (next == Automaton::kDead) return false;
          state = next;
          text += byte;
          return true;
        };
        for (const char other : {'1', '7'}) {
          if (text.empty()) add(digit) || add(other);
        }
        while (add('9') || add('1') || add('7') || (text.size() < 400 && add('0'))) continue;
        if (add('e')) {
          add('+');
          while (add('9')) continue;
        }
        if (!automaton.accepting(state)) continue;
        EXPECT_TRUE(std::isfinite(std::strtod(text.c_str(), nullptr))) << text << " from " << least;
      }
    }
  }
}

TEST(NumberBounds, OfMultiplesAreKeptToTheDigit) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Drawing draw(seed);
    const int digits = static_cast<int>(draw.below(4));
    const DecimalStep step{static_cast<int64_t>(1 + draw.below(250)), digits};
    const auto text_of = [&](int64_t units) {  // of 10^-digits
      const std::string magnitude = fmt::format("{:0>{}}", std::abs(units), digits + 1);
      std::string text = magnitude.substr(0, magnitude.size() - static_cast<size_t>(digits));
      if (digits > 0) text += "." + magnitude.substr(magnitude.size() - static_cast<size_t>(digits));
      return (units < 0 ? "-" : "") + text;
    };
    const auto least = static_cast<int64_t>(draw.below(200'000)) - 100'000;
    const int64_t most = least + static_cast<int64_t>(draw.below(5'000));
    NumberRange range{Decimal::of(text_of(least)), Decimal::of(text_of(most)), draw.below(2) == 0,
                      draw.below(2) == 0};
    const auto grammar = numbers(range, false, step);
    if (!grammar) continue;
    Automaton automaton(grammar);
    for (int64_t units = least - 300; units <= most + 300; ++units) {
      const bool within = (units > least || (units == least && !range.above_least)) &&
                          (units < most || (units == most && !range.below_most));
      const bool fits = within && units % step.multiple == 0;
      std::string text = text_of(units);
      if (digits > 0) text.resize(text.find_last_not_of('0') + 1);  // in its shortest form
      if (text.back() == '.') text.pop_back();
      EXPECT_EQ(takes(automaton, text), fits)
          << "seed " << seed << ": " << text << " of steps of " << step.multiple << "e-" << digits << " from "
          << text_of(least) << " to " << text_of(most);
    }
  }
}

TEST(NumberBounds, OfSchemasBeyondWhatDoublesTellApart) {
  struct Case {
    const char* schema;
    std::vector<const char*> fit, miss;
  };
  for (const Case& one : {
           Case{R"({"type":"integer","minimum":1e18})",
                {"1000000000000000000", "1234567890123456789"},
                {"999999999999999999", "1", "-1000000000000000000"}},
           Case{R"({"type":"integer","minimum":0,"maximum":9223372036854775807})",
                {"0", "9223372036854775807", "9007199254740993"},
                {"9223372036854775808", "-1"}},
           Case{
               R"({"type":"integer","minimum":-9223372036854775808,"exclusiveMaximum":-9223372036854775806})",
               {"-9223372036854775808", "-9223372036854775807"},
               {"-9223372036854775809", "-9223372036854775806", "0"}},
           Case{R"({"type":"integer","minimum":18446744073709551615,"maximum":18446744073709551615})",
                {"18446744073709551615"},
                {"18446744073709551614", "18446744073709551616"}},
           Case{R"({"type":"integer","minimum":1e16,"multipleOf":700})",
                {"10000000000000500"},
                {"10000000000000000", "700"}},
           Case{R"({"type":"number","exclusiveMinimum":9007199254740993})",
                {"9007199254740993.5", "9007199254740994"},
                {"9007199254740993", "9007199254740993.0"}},
           Case{
               R"({"enum":[9223372036854775807,9223372036854775806],"exclusiveMaximum":9223372036854775807})",
               {"9223372036854775806"},
               {"9223372036854775807"}},
           Case{
               R"({"enum":[9223372036854775807,9223372036854775806,10000000001,0.2,0.25,-6],"multipleOf":2})",
               {"9223372036854775806", "-6"},
               {"9223372036854775807", "10000000001", "0.2", "0.25"}},
           Case{R"({"enum":[12345678901,12345678900,10.1,1e21,0],"multipleOf":10})",
                {"12345678900", "1e+21", "0"},
                {"12345678901", "10.1"}},
           Case{R"({"enum":[0.3,0.35,7,1000000000.05],"multipleOf":0.1})",
                {"0.3", "7"},
                {"0.35", "1000000000.05"}},
       }) {
    const auto form = json_schema_form(AnswerStart::plain, *parse_json(one.schema), {});
    ASSERT_TRUE(form.ok()) << one.schema << ": " << form.error().text;
    for (const char* text : one.fit) EXPECT_TRUE(takes(*form, text)) << one.schema << " " << text;
    for (const char* text : one.miss) EXPECT_FALSE(takes(*form, text)) << one.schema << " " << text;
  }
}

}  // namespace
}  // namespace fulmar::testing
