// Numbers: bounds and `multipleOf`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "grammar/schema.h"
#include "grammar/schema_values.h"

namespace fulmar {
namespace {

// What is lost in decimal fractions such as 0.1 when they are read and multiplied.
constexpr double kRounding = 1e-9;
constexpr double kRelativeRounding = 4e-16;
constexpr int kMaxStepDigits = 15;
constexpr int kMaxFactor = 1000;

int64_t clamped(double bound) {
  return static_cast<int64_t>(
      std::clamp(bound, -static_cast<double>(kLargestWhole), static_cast<double>(kLargestWhole)));
}

// 1 or more, and whole but for rounding.
bool is_whole(double number) {
  return number >= 0.5 && std::abs(number - std::round(number)) <= kRounding + kRelativeRounding * number;
}

// How many digits behind the point multiples of 0.1, 0.01, ... have.
std::optional<int> fraction_digits(double step) {
  double power = 1;
  for (int digits = 1; digits <= kMaxStepDigits; ++digits) {
    power *= 10;
    if (std::abs(step * power - 1) <= kRounding) return digits;
  }
  return std::nullopt;
}

}  // namespace

struct SchemaCompiler::Numbers {
  WholeRange wholes;
  WholeRange between;  // fractions lie strictly between whole numbers, so excluded ends make no difference
  bool bounded = false;
};

Result<SchemaCompiler::Numbers> SchemaCompiler::numbers_of(const JsonValue& schema, const Where& where) {
  FULMAR_ASSIGN(const auto minimum, number_of(schema, "minimum", text_of(where)));
  FULMAR_ASSIGN(const auto maximum, number_of(schema, "maximum", text_of(where)));
  FULMAR_ASSIGN(const auto above, number_of(schema, "exclusiveMinimum", text_of(where)));
  FULMAR_ASSIGN(const auto below, number_of(schema, "exclusiveMaximum", text_of(where)));
  Numbers numbers;
  numbers.bounded = minimum || maximum || above || below;
  WholeRange& wholes = numbers.wholes;
  WholeRange& between = numbers.between;
  if (minimum) wholes.least = between.least = clamped(std::ceil(*minimum));
  if (maximum) wholes.most = between.most = clamped(std::floor(*maximum));
  if (above) {
    wholes.least = std::max(wholes.least, clamped(std::floor(*above) + 1));
    between.least = std::max(between.least, clamped(std::ceil(*above)));
  }
  if (below) {
    wholes.most = std::min(wholes.most, clamped(std::ceil(*below) - 1));
    between.most = std::min(between.most, clamped(std::floor(*below)));
  }
  const JsonValue* format = schema.find("format");
  if (format && format->is_string() && format->as_string() == "int32") {
    wholes.least = std::max<int64_t>(wholes.least, std::numeric_limits<int32_t>::min());
    wholes.most = std::min<int64_t>(wholes.most, std::numeric_limits<int32_t>::max());
  }
  return numbers;
}

// Multiples of 0.1, 0.01, ... are told by their digits; of other fractions the whole multiples are written.
Result<Place> SchemaCompiler::stepped_numbers(const Numbers& numbers, double step, bool whole,
                                              const Where& where) {
  const auto digits = whole ? std::nullopt : fraction_digits(step);
  if (digits) {
    if (numbers.wholes.least <= numbers.wholes.most || numbers.between.least < numbers.between.most) {
      return rules_.number_between(numbers.wholes, numbers.between, *digits, grammar_.end());
    }
    return nothing_fits(text_of(where));
  }
  for (int factor = 1; factor <= kMaxFactor; ++factor) {
    const double multiple = is_whole(1 / step) ? 1 : factor * step;
    if (!is_whole(multiple) || multiple > static_cast<double>(kLargestWhole)) continue;
    const auto place =
        rules_.multiples(static_cast<int64_t>(std::llround(multiple)), numbers.wholes, grammar_.end());
    if (!place) return unsupported_keyword(text_of(where), "multipleOf", place.error().text);
    if (*place) return **place;
    return nothing_fits(text_of(where));
  }
  return unsupported_keyword(
      text_of(where), "multipleOf",
      fmt::format("is {}; wanted a whole number, or one of which a multiple up to {} times "
                  "it is whole",
                  step, kMaxFactor));
}

Result<Place> SchemaCompiler::number_body(const JsonValue& schema, bool whole, const Where& where) {
  FULMAR_ASSIGN(const Numbers numbers, numbers_of(schema, where));
  FULMAR_ASSIGN(const auto step, number_of(schema, "multipleOf", text_of(where)));
  if (step && *step <= 0) {
    return invalid_keyword(text_of(where), "multipleOf", *schema.find("multipleOf"), "a number above 0");
  }
  const auto& [wholes, between, bounded] = numbers;
  const bool no_whole = wholes.least > wholes.most;
  if (whole && no_whole) return nothing_fits(text_of(where));
  if (step) return stepped_numbers(numbers, *step, whole, where);
  if (whole) return rules_.whole(wholes, grammar_.end());
  if (!bounded) return rules_.number(grammar_.end());
  if (no_whole && between.least >= between.most) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("schema keywords 'minimum' and 'maximum' at '{}' leave no room between two whole "
                    "numbers; wanted a range that holds one",
                    text_of(where))};
  }
  return rules_.number_between(wholes, between, kFractionDigits, grammar_.end());
}

}  // namespace fulmar
