// A number is its sign and a magnitude; a magnitude is compared with its bounds as decimal texts.
#include "grammar/number_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace fulmar {
namespace {

constexpr int64_t kWholeDigits = 15;
constexpr int kMaxPowerDigits = 2;

// Without a sign; no zeros in front or behind.
struct Decimal {
  std::string whole;
  std::string fraction;
};

Decimal decimal_of(double magnitude) {
  const std::string text = fmt::format("{}", magnitude);
  const size_t e = std::min(text.find('e'), text.size());
  const size_t point = std::min(text.find('.'), e);
  std::string digits = text.substr(0, point);
  if (point < e) digits += text.substr(point + 1, e - point - 1);
  auto place = static_cast<int64_t>(point);
  if (e < text.size()) place += std::strtol(text.c_str() + e + 1, nullptr, 10);
  if (place < 0) digits.insert(0, static_cast<size_t>(-place), '0');
  place = std::max<int64_t>(0, place);
  if (static_cast<size_t>(place) > digits.size()) digits.resize(static_cast<size_t>(place), '0');
  Decimal decimal{digits.substr(0, static_cast<size_t>(place)), digits.substr(static_cast<size_t>(place))};
  decimal.whole.erase(0, decimal.whole.find_first_not_of('0'));
  decimal.fraction.resize(decimal.fraction.find_last_not_of('0') + 1);
  return decimal;
}

// The whole number of `digits` digits behind the point; `cut`: something has been left off.
int64_t scaled(const Decimal& decimal, int digits, bool& cut) {
  std::string text = decimal.whole + decimal.fraction.substr(0, static_cast<size_t>(digits));
  const auto given = std::min<size_t>(decimal.fraction.size(), static_cast<size_t>(digits));
  text.append(static_cast<size_t>(digits) - given, '0');
  cut = decimal.fraction.size() > static_cast<size_t>(digits);
  if (text.size() > kWholeDigits) {
    const size_t first = text.find_first_not_of('0');
    text.erase(0, std::min(first, text.size()));
    if (text.size() > kWholeDigits) return kLargestWhole + 1;
  }
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10);
}

int64_t power_of_ten(int digits) {
  int64_t power = 1;
  for (int i = 0; i < digits; ++i) power *= 10;
  return power;
}

}  // namespace

// Magnitudes from `low` to `high`, both not negative; no `high`: without end.
struct NumberRules::Magnitudes {
  Decimal low;
  bool above_low = false;
  std::optional<Decimal> high;
  bool below_high = false;

  // Of the numbers above 0, or below it, in the range; nothing: there are none.
  static std::optional<Magnitudes> of(const NumberRange& range, bool negative) {
    const double least = negative ? -range.most : range.least;
    const double most = negative ? -range.least : range.most;
    const bool above = negative ? range.below_most : range.above_least;
    const bool below = negative ? range.above_least : range.below_most;
    if (most < 0 || (most == 0 && (below || negative))) return std::nullopt;
    Magnitudes magnitudes;
    magnitudes.low = decimal_of(std::max(0.0, least));
    magnitudes.above_low = least < 0 ? negative : above || (negative && least == 0);
    if (std::isfinite(most)) {
      magnitudes.high = decimal_of(most);
      magnitudes.below_high = below;
    }
    // Longer fractions than are written: what is cut off the lower bound lies above the rest.
    const auto longest = static_cast<size_t>(kFractionDigits);
    if (magnitudes.low.fraction.size() > longest) {
      magnitudes.low.fraction.resize(longest);
      magnitudes.above_low = true;
    }
    if (magnitudes.high && magnitudes.high->fraction.size() > longest) {
      magnitudes.high->fraction.resize(longest);
      magnitudes.below_high = false;
    }
    return magnitudes;
  }

  // Whole magnitudes with `digits` more digits, as if the point were not there.
  WholeRange scaled_range(int digits) const {
    bool cut = false;
    WholeRange range{0, kLargestWhole};
    range.least = scaled(low, digits, cut);
    if (cut || above_low) ++range.least;
    if (high) {
      range.most = scaled(*high, digits, cut);
      if (below_high && !cut) --range.most;
    }
    range.most = std::min(range.most, kLargestWhole);
    return range;
  }
};

// Behind the point, digit by digit: whether what is written so far equals the bounds.
class NumberRules::Fractions {
 public:
  Fractions(NumberRules& rules, Place next) : rules_(rules), next_(next) {}

  struct Side {
    std::string_view digits;
    bool excluded = false;
    bool active = false;
  };

  // The rest of a number of which the whole part has been written; nothing: none fits.
  std::optional<Place> behind_whole(Side low, Side high) {
    low_ = low;
    high_ = high;
    std::vector<Place> choices;
    if (may_stop(0, low.active, high.active)) choices.push_back(next_);
    if (const auto digits = behind(0, low.active, high.active)) {
      choices.push_back(rules_.grammar_.text(".", *digits));
    }
    if (choices.empty()) return std::nullopt;
    return rules_.grammar_.branch(choices);
  }

 private:
  static bool zeros_from(const Side& side, size_t at) {
    return at >= side.digits.size() || side.digits.find_first_not_of('0', at) == std::string_view::npos;
  }
  bool may_stop(size_t at, bool low, bool high) const {
    if (low && (!zeros_from(low_, at) || low_.excluded)) return false;
    return !high || !zeros_from(high_, at) || !high_.excluded;
  }
  static char digit_at(const Side& side, size_t at) {
    return at < side.digits.size() ? side.digits[at] : '0';
  }

  // At least one more digit where `at` is 0.
  std::optional<Place> behind(size_t at, bool low, bool high) {
    const auto longest = static_cast<size_t>(kFractionDigits);
    Grammar& g = rules_.grammar_;
    if (low && at >= low_.digits.size() && !low_.excluded) low = false;
    if (!low && !high) {
      const auto more = static_cast<int64_t>(longest - at);
      return g.repeat(rules_.digit_, at == 0 ? 1 : 0, more, next_);
    }
    const auto key = std::tuple(at, low, high);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    std::vector<Place> choices;
    if (at > 0 && may_stop(at, low, high)) choices.push_back(next_);
    const char first = low ? digit_at(low_, at) : '0';
    const char last = high ? digit_at(high_, at) : '9';
    for (char digit = first; at < longest && digit <= last; ++digit) {
      const auto rest = behind(at + 1, low && digit == first, high && digit == last);
      if (rest) choices.push_back(g.text({&digit, 1}, *rest));
    }
    std::optional<Place> place;
    if (!choices.empty()) place = g.branch(choices);
    known_.emplace(key, place);
    return place;
  }

  NumberRules& rules_;
  const Place next_;
  Side low_;
  Side high_;
  std::map<std::tuple<size_t, bool, bool>, std::optional<Place>> known_;
};

NumberRules::NumberRules(Grammar& grammar, JsonRules& rules)
    : grammar_(grammar), rules_(rules), digit_(grammar.rule(grammar.take_range('0', '9', grammar.end()))) {}

Place NumberRules::power(std::string_view signs, bool sign_needed, Place next) {
  ByteSet set;
  for (const char sign : signs) set.set(static_cast<unsigned char>(sign));
  ByteSet e;
  e.set('e').set('E');
  const Place digits = grammar_.repeat(digit_, 1, kMaxPowerDigits, next);
  const Place with_sign = grammar_.take(set, digits);
  return grammar_.branch(next,
                         grammar_.take(e, sign_needed ? with_sign : grammar_.branch(with_sign, digits)));
}

void NumberRules::add_magnitudes(const Magnitudes& range, bool fractional, std::string_view sign, Place next,
                                 std::vector<Place>& choices) {
  const auto add = [&](std::optional<Place> place) {
    if (place) choices.push_back(grammar_.text(sign, *place));
  };
  // A power keeps the magnitude on its side of the only bound that there is.
  const bool from_zero = range.low.whole.empty() && range.low.fraction.empty();
  Place end = next;
  if (!fractional && !range.high) end = power(from_zero ? "+-" : "+", false, next);
  if (!fractional && range.high && from_zero) end = power("-", true, next);
  const Fractions::Side whole_excluded{"", true, fractional};
  const auto behind = [&](Fractions::Side low, Fractions::Side high) {
    if (fractional && (!low.active || low.digits.empty())) low = whole_excluded;
    return Fractions(*this, end).behind_whole(low, high);
  };
  bool cut = false;
  const int64_t low = scaled(range.low, 0, cut);
  const int64_t high = range.high ? scaled(*range.high, 0, cut) : kLargestWhole + 1;
  if (low > kLargestWhole || low > high) return;
  const Fractions::Side low_side{range.low.fraction, range.above_low, true};
  const Fractions::Side high_side{range.high ? std::string_view(range.high->fraction) : std::string_view(),
                                  range.below_high, true};
  const auto starting = [&](int64_t whole, std::optional<Place> rest) {
    if (rest) add(grammar_.text(std::to_string(whole), *rest));
  };
  if (low == high) return starting(low, behind(low_side, high_side));
  starting(low, behind(low_side, {}));
  if (high <= kLargestWhole) starting(high, behind({}, high_side));
  if (low + 1 > std::min(high - 1, kLargestWhole)) return;
  const auto rest = behind({}, {});
  if (rest) add(rules_.whole({low + 1, std::min(high - 1, kLargestWhole)}, *rest));
}

std::optional<Place> NumberRules::between(const NumberRange& range, bool fractional, Place next) {
  std::vector<Place> choices;
  for (const bool negative : {false, true}) {
    const auto magnitudes = Magnitudes::of(range, negative);
    if (magnitudes) add_magnitudes(*magnitudes, fractional, negative ? "-" : "", next, choices);
  }
  if (choices.empty()) return std::nullopt;
  return grammar_.branch(choices);
}

std::optional<Place> NumberRules::whole(const NumberRange& range, Place next) {
  WholeRange wholes{kLargestWhole, -kLargestWhole};
  for (const bool negative : {false, true}) {
    const auto magnitudes = Magnitudes::of(range, negative);
    if (!magnitudes) continue;
    const WholeRange found = magnitudes->scaled_range(0);
    if (found.least > found.most) continue;
    wholes.least = std::min(wholes.least, negative ? -found.most : found.least);
    wholes.most = std::max(wholes.most, negative ? -found.least : found.most);
  }
  if (wholes.least > wholes.most) return std::nullopt;
  return rules_.whole(wholes, next);
}

// Digits of which the number is a multiple of a step, from the left: what has been read leaves a remainder.
class NumberRules::Multiples {
 public:
  // A point stands before the last `behind` digits; 0: there is none.
  Multiples(Grammar& grammar, int64_t step, size_t behind, Place next)
      : grammar_(grammar), step_(step), behind_(behind), next_(next) {}

  // Those of `low` to `high`, which are of one length.
  std::optional<Place> between(std::string_view low, std::string_view high, bool at_low, bool at_high,
                               int64_t remainder) {
    if (low.empty()) return remainder == 0 ? std::optional(next_) : std::nullopt;
    if (too_many()) return std::nullopt;
    const std::pair key(static_cast<int64_t>(low.size()), remainder);
    const bool free = !at_low && !at_high;
    if (const auto known = known_.find(key); free && known != known_.end()) return known->second;
    std::vector<Place> choices;
    for (char digit = at_low ? low.front() : '0'; digit <= (at_high ? high.front() : '9'); ++digit) {
      const auto rest = between(low.substr(1), high.substr(1), at_low && digit == low.front(),
                                at_high && digit == high.front(), (remainder * 10 + (digit - '0')) % step_);
      if (rest) choices.push_back(grammar_.text({&digit, 1}, *rest));
    }
    std::optional<Place> place;
    if (!choices.empty()) place = grammar_.branch(choices);
    if (place && behind_ > 0 && low.size() == behind_) place = grammar_.text(".", *place);
    if (free) known_.emplace(key, place);
    return place;
  }
  bool too_many() const { return known_.size() >= kMaxRemainders; }

 private:
  Grammar& grammar_;
  const int64_t step_;
  const size_t behind_;
  const Place next_;
  std::map<std::pair<int64_t, int64_t>, std::optional<Place>> known_;  // by digits to come and remainder
};

// For each number of digits behind the point that a multiple may have. The zeros at the end of a step stand
// at the end of its multiples, too, and need no remainder.
Result<std::optional<Place>> NumberRules::multiples(DecimalStep step, const NumberRange& range, bool whole,
                                                    Place next) {
  std::vector<Place> choices;
  for (int digits = 0; digits <= (whole ? 0 : step.digits); ++digits) {
    int64_t multiple = step.multiple / std::gcd(step.multiple, power_of_ten(step.digits - digits));
    int64_t power = 1;
    Place behind = next;
    for (; digits == 0 && multiple % 10 == 0; multiple /= 10, power *= 10)
      behind = grammar_.text("0", behind);
    Multiples multiples(grammar_, multiple, static_cast<size_t>(digits), behind);
    for (const bool negative : {false, true}) {
      const auto magnitudes = Magnitudes::of(range, negative);
      if (!magnitudes) continue;
      const WholeRange scaled = magnitudes->scaled_range(digits);
      if (digits == 0 && !negative && scaled.least <= 0 && scaled.most >= 0) {
        choices.push_back(grammar_.text("0", next));
      }
      const int64_t floor = digits == 0 ? 1 : 0;
      const int64_t least = (std::max(floor, scaled.least) + power - 1) / power;
      const int64_t most = scaled.most / power;
      const size_t shortest = static_cast<size_t>(digits) + 1;  // a digit stands before the point
      for (size_t length = 1; length <= kWholeDigits; ++length) {
        const int64_t low = length == 1 ? 0 : power_of_ten(static_cast<int>(length) - 1);
        const int64_t from = std::max(low, least);
        const int64_t to = std::min(length == 1 ? 9 : low * 10 - 1, most);
        if (from > to) continue;
        const auto padded = [&](int64_t number) { return fmt::format("{:0{}}", number, shortest); };
        const auto place = multiples.between(padded(from), padded(to), true, true, 0);
        if (place) choices.push_back(grammar_.text(negative ? "-" : "", *place));
      }
    }
    if (multiples.too_many()) {
      return Error{ErrorKind::unsupported,
                   fmt::format("tells more than {} remainders apart, which is the limit", kMaxRemainders)};
    }
  }
  if (choices.empty()) return std::optional<Place>();
  return std::optional(grammar_.branch(choices));
}

std::optional<DecimalStep> decimal_step(double step) {
  const Decimal decimal = decimal_of(step);
  const auto digits = static_cast<int>(decimal.fraction.size());
  if (digits > kMaxStepDigits) return std::nullopt;
  bool cut = false;
  const int64_t multiple = scaled(decimal, digits, cut);
  if (multiple <= 0 || multiple > kLargestWhole) return std::nullopt;
  return DecimalStep{multiple, digits};
}

std::optional<DecimalStep> common_step(DecimalStep one, DecimalStep other) {
  const int digits = std::max(one.digits, other.digits);
  const auto grown = [&](DecimalStep step) -> int64_t {
    const int64_t power = power_of_ten(digits - step.digits);
    return step.multiple > kLargestWhole / power ? 0 : step.multiple * power;
  };
  const int64_t first = grown(one);
  const int64_t second = grown(other);
  if (first == 0 || second == 0) return std::nullopt;
  const int64_t quotient = second / std::gcd(first, second);
  if (first > kLargestWhole / quotient) return std::nullopt;
  return DecimalStep{first * quotient, digits};
}

}  // namespace fulmar
