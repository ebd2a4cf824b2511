// Decides whether a listed value fits the other demands of a schema, by the same shapes.
#include <algorithm>
#include <cmath>
#include <string>

#include "grammar/decimal.h"
#include "grammar/formats.h"
#include "grammar/number_rules.h"
#include "grammar/schema_expansion.h"
#include "grammar/schema_values.h"

namespace fulmar {
namespace {

constexpr int kMaxDepth = 64;
constexpr double kRounding = 1e-9;

size_t kind_of(const JsonValue& value) {
  if (value.is_null()) return kNull;
  if (value.is_bool()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  return value.is_object() ? kObject : kNumber;
}

// Returns whether the number is a multiple of the step: exactly, digit by digit, but within rounding for
// steps that decimal_step() cannot represent.
bool is_multiple(const JsonValue& value, const Decimal& number, double step) {
  const auto exact = decimal_step(step);
  if (!exact) {
    const double times = value.as_double() / step;
    return std::abs(times - std::round(times)) <= kRounding * std::max(1.0, std::abs(times));
  }
  const auto digits = static_cast<size_t>(exact->digits);
  if (number.fraction.size() > digits) return false;
  const std::string padding(digits - number.fraction.size(), '0');
  int64_t rest = 0;  // below 10^15, as the step is
  for (const char digit : number.whole + number.fraction + padding) {
    rest = (rest * 10 + (digit - '0')) % exact->multiple;
  }
  return rest == 0;
}

bool number_fits(const JsonValue& value, const Shape& shape) {
  const Decimal exact = Decimal::of(value);
  const bool whole = is_whole(value);
  if ((shape.whole && !whole) || (shape.fractional && whole)) return false;
  if (!shape.numbers().has(exact)) return false;
  return std::all_of(shape.steps.begin(), shape.steps.end(),
                     [&](const auto& step) { return is_multiple(value, exact, step.first); });
}

bool count_fits(size_t found, int64_t least, int64_t most) {
  const auto count = static_cast<int64_t>(found);
  return count >= least && (most < 0 || count <= most);
}

// Returns whether the text may have the formats: it has one unless no reader accepts it as one.
bool formats_fit(std::string_view text, const Shape& shape) {
  const auto may_be = [&](std::string_view format) {
    const TextAutomaton* widest = widest_format_texts(format);
    return !widest || widest->takes(text);
  };
  return std::all_of(shape.formats.begin(), shape.formats.end(),
                     [&](const Shape::Described& one) { return may_be(one.format); }) &&
         std::none_of(shape.missed_formats.begin(), shape.missed_formats.end(), may_be);
}

}  // namespace

Result<bool> SchemaExpansion::fits(const JsonValue& value, const Demands& demands) {
  if (demands.empty()) return true;
  if (nothing_fits(demands)) return false;
  FULMAR_ASSIGN(const auto shapes, shapes_of(demands, &value));
  for (const Shape& shape : shapes) {
    FULMAR_ASSIGN(const bool one, fits(value, shape));
    if (one) return true;
  }
  return false;
}

Result<bool> SchemaExpansion::fits(const JsonValue& value, const Shape& shape) {
  FULMAR_TRY(reader_.budget().take(Budget::Item::work, shape.excluded.size() + 1));
  if (!shape.kinds[kind_of(value)]) return false;
  const auto same = [&](const JsonValue* one) { return same_text(*one) == same_text(value); };
  if (std::any_of(shape.excluded.begin(), shape.excluded.end(), same)) return false;
  if (shape.values && std::none_of(shape.values->begin(), shape.values->end(), same)) return false;
  if (value.is_number()) return number_fits(value, shape);
  if (value.is_string()) {
    const auto length = static_cast<int64_t>(code_points_of(value.as_string()).size());
    if (!count_fits(static_cast<size_t>(length), shape.least_length, shape.most_length)) return false;
    if (texts_.plain(shape)) return true;
    for (const auto& [schema, wanted] : shape.patterns) {
      const auto matched = texts_.matching(*schema, "pattern", schema->find("pattern")->as_string());
      if (!matched && reader_.loosens(matched.error())) continue;
      if (!matched) return matched.error();
      if ((*matched)->takes(value.as_string()) != wanted) return false;
    }
    return formats_fit(value.as_string(), shape);
  }
  if (!value.is_array() && !value.is_object()) return true;
  if (depth_ >= kMaxDepth) return Error{ErrorKind::unsupported, "values are nested too deep to be tried"};
  ++depth_;
  const auto fitting = value.is_array() ? elements_fit(value, shape) : members_fit(value, shape);
  --depth_;
  return fitting;
}

Result<bool> SchemaExpansion::elements_fit(const JsonValue& value, const Shape& shape) {
  const JsonValue::Array& list = value.as_array();
  if (!count_fits(list.size(), shape.least_items, shape.most_items)) return false;
  const SchemaElements elements(shape);
  for (size_t i = 0; i < list.size(); ++i) {
    FULMAR_ASSIGN(const bool fitting, fits(list[i], elements.at(i)));
    if (!fitting) return false;
    for (size_t j = 0; shape.unique && j < i; ++j) {
      if (same_text(list[i]) == same_text(list[j])) return false;
    }
  }
  for (const Shape::Contained& contained : shape.contained) {
    size_t count = 0;
    for (const JsonValue& one : list) {
      FULMAR_ASSIGN(const bool fitting, fits(one, Demands{contained.item}));
      count += fitting ? 1 : 0;
    }
    if (!count_fits(count, contained.least, contained.most)) return false;
  }
  return true;
}

Result<bool> SchemaExpansion::members_fit(const JsonValue& value, const Shape& shape) {
  const auto& members = value.as_object().members();
  if (!count_fits(members.size(), shape.least_members, shape.most_members)) return false;
  for (const std::string_view name : shape.required) {
    if (!value.find(name)) return false;
  }
  FULMAR_ASSIGN(const SchemaMembers scopes, SchemaMembers::of(shape, reader_, texts_));
  for (const auto& [name, part] : members) {
    FULMAR_ASSIGN(const Demands demands, scopes.of_name(name, shape, reader_.budget()));
    FULMAR_ASSIGN(bool fitting, fits(part, demands));
    if (fitting) {
      FULMAR_ASSIGN(fitting, fits(JsonValue(name), shape.names));
    }
    if (!fitting) return false;
  }
  return true;
}

}  // namespace fulmar
