// A number is its sign and a magnitude; a magnitude is compared with its bounds as decimal texts.
#include "grammar/number_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace fulmar {
namespace {

// kLargestWhole as a number.
constexpr int64_t kLargestStep = [] {
  int64_t value = 0;
  for (const char digit : kLargestWhole) value = value * 10 + (digit - '0');
  return value;
}();
constexpr int kMaxPowerDigits = 2;
constexpr size_t kMostPower = 99;
// The largest number that readers of JSON accept, a double: how many digits it has, and those before its
// zeros.
constexpr size_t kLargestDigits = 309;
constexpr std::string_view kLargestNumber = "17976931348623157";

// Removes leading zeros, except from zero itself.
std::string trimmed(std::string digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  return digits.empty() ? "0" : digits;
}

int64_t power_of_ten(int digits) {
  int64_t power = 1;
  for (int i = 0; i < digits; ++i) power *= 10;
  return power;
}

}  // namespace

// Magnitudes from `low` to `high`, neither of which is negative.
struct NumberRules::Magnitudes {
  Decimal low;
  bool above_low = false;
  Decimal high;  // may be endless
  bool below_high = false;

  // Returns the magnitudes of the numbers above 0, or below it, in the range; nothing: there are none.
  static std::optional<Magnitudes> of(const NumberRange& range, bool negative) {
    const Decimal least = negative ? range.most.negated() : range.least;
    const Decimal most = negative ? range.least.negated() : range.most;
    const bool above = negative ? range.below_most : range.above_least;
    const bool below = negative ? range.above_least : range.below_most;
    if (most.negative || (most.is_zero() && (below || negative)) || (least.endless && !least.negative)) {
      return std::nullopt;
    }
    Magnitudes magnitudes;
    if (!least.negative) magnitudes.low = least;
    magnitudes.above_low = least.negative ? negative : above || (negative && least.is_zero());
    magnitudes.high = most;
    magnitudes.below_high = !most.endless && below;
    // Longer fractions than are written: what is cut off the lower bound lies above the rest.
    const auto longest = static_cast<size_t>(kFractionDigits);
    if (magnitudes.low.fraction.size() > longest) {
      magnitudes.low.fraction.resize(longest);
      magnitudes.above_low = true;
    }
    if (magnitudes.high.fraction.size() > longest) {
      magnitudes.high.fraction.resize(longest);
      magnitudes.below_high = false;
    }
    return magnitudes;
  }

  // Returns the largest number that is written without an upper bound; some are above the lower bound.
  std::string nines(int digits) const {
    const auto behind = static_cast<size_t>(digits);
    const size_t longest = std::max(kWholeDigits, low.whole.size() + behind + 1);
    if (longest < kLargestDigits + behind) return std::string(longest, '9');
    std::string largest(kLargestNumber);
    largest.resize(kLargestDigits + behind, '0');
    return largest;
  }

  // Returns the numbers with `digits` digits after the point, times 10^digits; nothing: there are none.
  std::optional<DigitRange> scaled(int digits) const {
    const auto behind = static_cast<size_t>(digits);
    const auto cut = [&](const Decimal& decimal) {
      std::string text = decimal.fraction.substr(0, behind);
      text.resize(behind, '0');
      return trimmed(decimal.whole + text);
    };
    DigitRange range{cut(low), high.endless ? nines(digits) : cut(high)};
    if (above_low || low.fraction.size() > behind) range.least = one_more(range.least);
    if (below_high && high.fraction.size() <= behind) {
      if (range.most == "0") return std::nullopt;
      range.most = one_less(range.most);
    }
    if (compare_digits(range.least, range.most) > 0) return std::nullopt;
    return range;
  }
};

// Takes digits after the point one by one, knowing whether all so far equal the bounds'.
class NumberRules::Fractions {
 public:
  Fractions(NumberRules& rules, Place next) : rules_(rules), next_(next) {}

  struct Side {
    std::string_view digits;
    bool excluded = false;
    bool active = false;
  };

  // Takes the rest of a number after its whole part; nothing: none fits.
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

  // Takes digits after the point from index `at` on, at least one if `at` is 0; low, high: all so far equal
  // the bound's.
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
  const bool from_zero = range.low.is_zero();
  Place end = next;
  const bool room = range.nines(0).size() + kMostPower < kLargestDigits;
  if (!fractional && range.high.endless && room) end = power(from_zero ? "+-" : "+", false, next);
  if (!fractional && !range.high.endless && from_zero) end = power("-", true, next);
  const Fractions::Side whole_excluded{"", true, fractional};
  const auto behind = [&](Fractions::Side low, Fractions::Side high) {
    if (fractional && (!low.active || low.digits.empty())) low = whole_excluded;
    return Fractions(*this, end).behind_whole(low, high);
  };
  const std::string low = trimmed(range.low.whole);
  const std::string high = range.high.endless ? one_more(range.nines(0)) : trimmed(range.high.whole);
  const auto order = compare_digits(low, high);
  if (order > 0) return;
  const Fractions::Side low_side{range.low.fraction, range.above_low, true};
  const Fractions::Side high_side{range.high.fraction, range.below_high, true};
  const auto starting = [&](const std::string& whole, std::optional<Place> rest) {
    if (rest) add(grammar_.text(whole, *rest));
  };
  if (order == 0) return starting(low, behind(low_side, high_side));
  starting(low, behind(low_side, {}));
  if (!range.high.endless) starting(high, behind({}, high_side));
  const DigitRange inner{one_more(low), one_less(high)};
  if (compare_digits(inner.least, inner.most) > 0) return;
  const auto rest = behind({}, {});
  if (rest) add(rules_.digits(inner, *rest));
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
  std::vector<Place> choices;
  for (const bool negative : {false, true}) {
    const auto magnitudes = Magnitudes::of(range, negative);
    const auto wholes = magnitudes ? magnitudes->scaled(0) : std::nullopt;
    if (wholes) choices.push_back(grammar_.text(negative ? "-" : "", rules_.digits(*wholes, next)));
  }
  if (choices.empty()) return std::nullopt;
  return grammar_.branch(choices);
}

// Digits of which the number is a multiple of a step, from the left: what has been read leaves a remainder.
class NumberRules::Multiples {
 public:
  // Makes places for multiples of `step` with a point before the last `behind` digits; 0: no point.
  Multiples(Grammar& grammar, int64_t step, size_t behind, Place next)
      : grammar_(grammar), step_(step), behind_(behind), next_(next) {}

  // Takes the multiples from `low` to `high`, which have the same length; `remainder` is that of the digits
  // so far.
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

namespace {

// Returns the numbers that give one of the range when `zeros` zeros are appended.
DigitRange without_zeros(DigitRange range, size_t zeros) {
  const auto cut = [&](const std::string& digits) {
    return trimmed(digits.substr(0, digits.size() - std::min(zeros, digits.size())));
  };
  const bool exact = range.least == cut(range.least) + std::string(zeros, '0');
  return {exact || range.least == "0" ? cut(range.least) : one_more(cut(range.least)), cut(range.most)};
}

// Calls `take` with the ends of the numbers of each length in the range.
template <class Take>
void for_each_length(const DigitRange& range, const Take& take) {
  if (compare_digits(range.least, range.most) > 0) return;
  for (size_t length = range.least.size(); length <= range.most.size(); ++length) {
    const std::string lowest = length == 1 ? "0" : "1" + std::string(length - 1, '0');
    const std::string highest(length, '9');
    take(length == range.least.size() ? range.least : lowest,
         length == range.most.size() ? range.most : highest);
  }
}

}  // namespace

// Adds the multiples by how many digits they have after the point. The zeros at the end of a step are at the
// end of its multiples, too, and need no remainder.
Result<std::optional<Place>> NumberRules::multiples(DecimalStep step, const NumberRange& range, bool whole,
                                                    Place next) {
  std::vector<Place> choices;
  for (int digits = 0; digits <= (whole ? 0 : step.digits); ++digits) {
    int64_t multiple = step.multiple / std::gcd(step.multiple, power_of_ten(step.digits - digits));
    size_t zeros = 0;
    Place behind = next;
    for (; digits == 0 && multiple % 10 == 0; multiple /= 10, ++zeros) behind = grammar_.text("0", behind);
    Multiples multiples(grammar_, multiple, static_cast<size_t>(digits), behind);
    for (const bool negative : {false, true}) {
      const auto magnitudes = Magnitudes::of(range, negative);
      auto scaled = magnitudes ? magnitudes->scaled(digits) : std::nullopt;
      if (!scaled) continue;
      if (digits == 0 && !negative && scaled->least == "0") choices.push_back(grammar_.text("0", next));
      if (digits == 0 && scaled->least == "0") scaled->least = "1";
      // Remainders of more digits are many; they are told apart only where the lower bound needs it.
      const std::string longest = magnitudes->nines(digits);
      if (compare_digits(scaled->most, longest) > 0) scaled->most = longest;
      for_each_length(without_zeros(*scaled, zeros), [&](std::string_view from, std::string_view to) {
        // A digit stands before the point.
        const size_t shortest = static_cast<size_t>(digits) + 1;
        const auto padded = [&](std::string_view number) { return fmt::format("{:0>{}}", number, shortest); };
        const auto place = multiples.between(padded(from), padded(to), true, true, 0);
        if (place) choices.push_back(grammar_.text(negative ? "-" : "", *place));
      });
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
  const Decimal decimal = Decimal::of(fmt::format("{}", step));
  const auto digits = static_cast<int>(decimal.fraction.size());
  if (digits > kMaxStepDigits) return std::nullopt;
  const std::string multiple = trimmed(decimal.whole + decimal.fraction);
  if (multiple == "0" || multiple.size() > kWholeDigits) return std::nullopt;
  return DecimalStep{std::strtoll(multiple.c_str(), nullptr, 10), digits};
}

std::optional<DecimalStep> common_step(DecimalStep one, DecimalStep other) {
  const int digits = std::max(one.digits, other.digits);
  const auto grown = [&](DecimalStep step) -> int64_t {
    const int64_t power = power_of_ten(digits - step.digits);
    return step.multiple > kLargestStep / power ? 0 : step.multiple * power;
  };
  const int64_t first = grown(one);
  const int64_t second = grown(other);
  if (first == 0 || second == 0) return std::nullopt;
  const int64_t quotient = second / std::gcd(first, second);
  if (first > kLargestStep / quotient) return std::nullopt;
  return DecimalStep{first * quotient, digits};
}

}  // namespace fulmar
