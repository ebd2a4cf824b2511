// Decimals of any length, exact: bounds of numbers are compared digit by digit. Knows nothing of grammars.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "net/json_value.h"

namespace fulmar {

struct Decimal {
  bool negative = false;  // zero is not
  bool endless = false;   // beyond all numbers; it has no digits
  // The digits of the magnitude, without leading and trailing zeros.
  std::string whole;
  std::string fraction;

  // Reads a number as JSON writes it.
  static Decimal of(std::string_view text);
  // Converts a number; one that was read as a double becomes the shortest decimal that reads back as it.
  static Decimal of(const JsonValue& number);
  static Decimal beyond_all(bool negative) { return {.negative = negative, .endless = true}; }

  bool is_zero() const { return !endless && whole.empty() && fraction.empty(); }
  Decimal negated() const;
  std::string text() const;
  std::strong_ordering operator<=>(const Decimal& other) const;
  bool operator==(const Decimal& other) const = default;
};

// Numbers between bounds.
struct NumberRange {
  Decimal least = Decimal::beyond_all(true);
  Decimal most = Decimal::beyond_all(false);
  bool above_least = false;  // the bound itself is excluded
  bool below_most = false;

  // Narrows the range; `excluded`: the bound itself is outside.
  void raise_least(const Decimal& bound, bool excluded);
  void lower_most(const Decimal& bound, bool excluded);
  bool empty() const { return least > most || (least == most && (above_least || below_most)); }
  bool has(const Decimal& number) const;
};

// Compares whole numbers given as digits: no sign, and no leading zeros except for "0".
std::strong_ordering compare_digits(std::string_view one, std::string_view other);
std::string one_more(std::string digits);
std::string one_less(std::string digits);  // of one above 0

}  // namespace fulmar
