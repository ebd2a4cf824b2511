// Reads, compares and counts decimal digits.
#include "grammar/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace fulmar {

Decimal Decimal::of(std::string_view text) {
  Decimal decimal;
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.remove_prefix(1);
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const size_t point = std::min(text.find('.'), e);
  std::string digits(text.substr(0, point));
  if (point < e) digits += text.substr(point + 1, e - point - 1);
  auto place = static_cast<int64_t>(point);
  if (e < text.size()) place += std::strtol(std::string(text.substr(e + 1)).c_str(), nullptr, 10);
  if (place < 0) digits.insert(0, static_cast<size_t>(-place), '0');
  place = std::max<int64_t>(0, place);
  if (static_cast<size_t>(place) > digits.size()) digits.resize(static_cast<size_t>(place), '0');
  decimal.whole = digits.substr(0, static_cast<size_t>(place));
  decimal.fraction = digits.substr(static_cast<size_t>(place));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  decimal.fraction.resize(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

Decimal Decimal::of(const JsonValue& number) {
  switch (number.kind()) {
    case JsonValue::Kind::int64:
      return of(fmt::format("{}", number.as_int64()));
    case JsonValue::Kind::uint64:
      return of(fmt::format("{}", number.as_uint64()));
    default:
      return of(fmt::format("{}", number.as_double()));
  }
}

Decimal Decimal::negated() const {
  Decimal other = *this;
  other.negative = !negative && !is_zero();
  return other;
}

std::string Decimal::text() const {
  const std::string_view sign = negative ? "-" : "";
  if (endless) return fmt::format("{}endless", sign);
  return fmt::format("{}{}{}{}", sign, whole.empty() ? "0" : whole, fraction.empty() ? "" : ".", fraction);
}

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
  if (negative != other.negative) {
    return negative ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  const Decimal& one = negative ? other : *this;
  const Decimal& two = negative ? *this : other;
  if (one.endless || two.endless) return one.endless <=> two.endless;
  const auto wholes = compare_digits(one.whole, two.whole);
  return wholes != 0 ? wholes : one.fraction <=> two.fraction;
}

void NumberRange::raise_least(const Decimal& bound, bool excluded) {
  if (bound < least || (bound == least && !excluded)) return;
  least = bound;
  above_least = excluded;
}

void NumberRange::lower_most(const Decimal& bound, bool excluded) {
  if (bound > most || (bound == most && !excluded)) return;
  most = bound;
  below_most = excluded;
}

bool NumberRange::has(const Decimal& number) const {
  if (number < least || (number == least && above_least)) return false;
  return number < most || (number == most && !below_most);
}

std::strong_ordering compare_digits(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return one.size() <=> other.size();
  return one <=> other;
}

std::string one_more(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  return "1" + digits;
}

std::string one_less(std::string digits) {
  size_t i = digits.size();
  while (i-- > 0 && digits[i] == '0') digits[i] = '9';
  --digits[i];
  if (digits.size() > 1 && digits.front() == '0') digits.erase(0, 1);
  return digits;
}

}  // namespace fulmar
