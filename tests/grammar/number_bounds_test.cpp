// Bounds of numbers, of any length and exactly, against arithmetic on decimal texts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/number_rules.h"
#include "grammar/taken.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

// Null: no number is left.
std::shared_ptr<const Grammar> numbers(const NumberRange& range, bool whole) {
  Budget budget;
  auto grammar = std::make_shared<Grammar>(budget);
  JsonRules json(*grammar);
  NumberRules rules(*grammar, json);
  const auto place = whole ? rules.whole(range, grammar->end()) : rules.between(range, false, grammar->end());
  if (!place) return nullptr;
  EXPECT_TRUE(grammar->finish(grammar->rule(*place)).ok());
  return grammar;
}

// Below 0, 0 or above: by writing both as long as the longer one.
int compare(std::string one, std::string other) {
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
