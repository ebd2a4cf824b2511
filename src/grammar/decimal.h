// Decimals of any length, exactly: bounds of numbers are compared digit by digit. Knows nothing of grammars.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "net/json_value.h"

namespace fulmar {

struct Decimal {
  bool negative = false;  // zero is not
  bool endless = false;   // beyond all numbers; it has no digits
  // The magnitude: no zeros in front or behind.
  std::string whole;
  std::string fraction;

  // Of a number as JSON writes it.
  static Decimal of(std::string_view text);
  // Of a number; one that was read as a double is the shortest decimal that reads back as it.
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

  // Narrow it; `excluded`: the bound itself is not in it.
  void raise_least(const Decimal& bound, bool excluded);
  void lower_most(const Decimal& bound, bool excluded);
  bool empty() const { return least > most || (least == most && (above_least || below_most)); }
  bool has(const Decimal& number) const;
};

// Whole numbers as digits without a sign, "0" or without zeros in front.
std::strong_ordering compare_digits(std::string_view one, std::string_view other);
std::string one_more(std::string digits);
std::string one_less(std::string digits);  // of one above 0

}  // namespace fulmar
