// Numbers between bounds and multiples of a step, digit by digit, as places of a grammar. Knows nothing of
// schemas.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "grammar/decimal.h"
#include "grammar/grammar.h"
#include "grammar/json_rules.h"

namespace fulmar {

// The step `multiple` / 10^`digits`.
struct DecimalStep {
  int64_t multiple = 1;
  int digits = 0;
};
// Converts a step; nothing: more than kMaxStepDigits digits after the point, or kWholeDigits in all.
std::optional<DecimalStep> decimal_step(double step);
// Returns the least step that is a multiple of both; nothing: it is too large.
std::optional<DecimalStep> common_step(DecimalStep one, DecimalStep other);
inline constexpr int kMaxStepDigits = 12;

class NumberRules {
 public:
  // Makes the rules; both arguments must outlive them.
  NumberRules(Grammar& grammar, JsonRules& rules);

  // Takes a number in the range; nothing: there is none. `fractional`: only numbers with a fraction.
  std::optional<Place> between(const NumberRange& range, bool fractional, Place next);
  std::optional<Place> whole(const NumberRange& range, Place next);
  // Takes a multiple of `step` in the range; `whole`: one without a fraction. Error unsupported: more than
  // kMaxRemainders remainders would have to be told apart.
  Result<std::optional<Place>> multiples(DecimalStep step, const NumberRange& range, bool whole, Place next);
  static constexpr size_t kMaxRemainders = 50'000;

 private:
  struct Magnitudes;
  class Fractions;
  class Multiples;

  void add_magnitudes(const Magnitudes& range, bool fractional, std::string_view sign, Place next,
                      std::vector<Place>& choices);
  Place power(std::string_view signs, bool sign_needed, Place next);

  Grammar& grammar_;
  JsonRules& rules_;
  Rule digit_;
};

}  // namespace fulmar
