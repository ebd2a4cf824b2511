// The reader of request fields.
#include "server/core/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/meter.h"
#include "grammar/schema_values.h"
#include "net/json.h"

namespace fulmar {
namespace {

constexpr double kLargestListed = 1e9;
// No whole number of a client is larger than that, so that a few may be added up or multiplied by a small
// one.
constexpr int64_t kMostCounted = int64_t{1} << 53;

constexpr size_t kLongestShownName = 80;

}  // namespace

bool holds_something(const JsonValue* value) {
  if (!value || value->is_null()) return false;
  if (value->is_string()) return !value->as_string().empty();
  return !value->is_array() || !value->as_array().empty();
}

std::vector<std::string_view> words_of(std::string_view text, char between) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, text.find(between)));
    text.remove_prefix(std::min(text.size(), words.back().size() + 1));
  }
  return words;
}

Fields::Fields(const JsonValue& body) : body_(body) {
  if (const JsonValue* params = body.find(kBodyFields["params"].name); params && !params->is_null()) {
    if (params->is_object()) {
      check_beside(*params, kBodyFields["params"].name);
      params_ = params;
    } else {
      fail_type(kBodyFields["params"].name, *params, "an object");
    }
  }
}

const JsonValue* Fields::member(std::string_view name) const {
  const JsonValue* found = body_.find(name);
  if (found && !found->is_null()) return found;
  if (params_) found = params_->find(name);
  return found && !found->is_null() ? found : nullptr;
}

void Fields::check_beside(const JsonValue& nested, std::string_view place) {
  if (!nested.is_object()) return;
  for (const auto& [name, value] : nested.as_object().members()) {
    const JsonValue* beside = member(name);
    if (!beside || value.is_null() || same_text(*beside) == same_text(value)) continue;
    const std::string_view shown = std::string_view(name).substr(0, kLongestShownName);
    return fail(bad_value(fmt::format("'{}' is {}, but '{}.{}' is {}; wanted one of them, or both alike",
                                      shown, describe(*beside), place, shown, describe(value)),
                          std::string(shown), "unsupported_parameter"));
  }
}

std::optional<bool> Fields::boolean(TypedField<Type::boolean> one) {
  const JsonValue* found = find(one.field);
  if (!found) return std::nullopt;
  std::optional<bool> flag = lenient_bool(*found);
  if (!flag) fail_type(one.field.name, *found, "true or false");
  return flag;
}

bool Fields::flag(TypedField<Type::boolean> one) {
  return boolean(one).value_or(one.field.otherwise == "true");
}

std::optional<int64_t> Fields::integer(TypedField<Type::integer> one) {
  const JsonValue* found = find(one.field);
  if (!found) return std::nullopt;
  const std::optional<int64_t> whole = lenient_int(*found);
  const double value = whole ? static_cast<double>(*whole) : 0;
  if (whole && value >= one.field.takes.least && value <= one.field.takes.most)
    return std::clamp(*whole, -kMostCounted, kMostCounted);
  fail_range(one.field, *found, "a whole number");
  return std::nullopt;
}

int64_t Fields::count(TypedField<Type::integer> one) {
  const std::string_view digits = one.field.otherwise;
  int64_t otherwise = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), otherwise);
  return integer(one).value_or(otherwise);
}

std::optional<double> Fields::number(TypedField<Type::number> one) {
  const JsonValue* found = find(one.field);
  if (!found) return std::nullopt;
  const std::optional<double> value = lenient_number(*found);
  if (value && *value >= one.field.takes.least && *value <= one.field.takes.most) return value;
  fail_range(one.field, *found, "a number");
  return std::nullopt;
}

std::optional<uint64_t> Fields::seed(TypedField<Type::seed> one) {
  const JsonValue* found = find(one.field);
  if (!found) return std::nullopt;
  if (found->kind() == JsonValue::Kind::uint64) return found->as_uint64();
  if (const auto whole = lenient_int(*found); whole && *whole >= 0) return static_cast<uint64_t>(*whole);
  if (found->is_string()) {
    const std::string& digits = found->as_string();
    uint64_t value = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (fault == std::errc() && end == digits.data() + digits.size()) return value;
  }
  fail_type(one.field.name, *found, "a whole number of 0 to 2^64-1");
  return std::nullopt;
}

std::optional<std::string> Fields::text(TypedField<Type::text> one) {
  const JsonValue* found = find(one.field);
  if (!found) return std::nullopt;
  if (found->is_string()) {
    count_work(found->as_string().size());
    return found->as_string();
  }
  fail_type(one.field.name, *found, "a string");
  return std::nullopt;
}

std::optional<std::string> Fields::word(TypedField<Type::word> one) {
  const JsonValue* found = find(one.field);
  if (!holds_something(found)) return std::nullopt;
  const std::vector<std::string_view> words = words_of(one.field.takes.words, ' ');
  if (found->is_string() && std::find(words.begin(), words.end(), found->as_string()) != words.end()) {
    return found->as_string();
  }
  fail_type(one.field.name, *found, fmt::format("one of: {}", one.field.takes.words));
  return std::nullopt;
}

std::vector<std::string> Fields::texts(TypedField<Type::texts> one) {
  const JsonValue* found = find(one.field);
  if (!found) return {};
  if (found->is_string()) return {found->as_string()};
  if (!found->is_array()) {
    fail_type(one.field.name, *found, "an array of strings");
    return {};
  }
  std::vector<std::string> list;
  list.reserve(found->as_array().size());
  for (const JsonValue& element : found->as_array()) {
    if (!element.is_string()) {
      fail_type(fmt::format("{}[{}]", one.field.name, list.size()), element, "a string");
      return {};
    }
    count_work(1 + element.as_string().size());
    list.push_back(element.as_string());
  }
  return list;
}

std::optional<std::vector<double>> Fields::numbers(TypedField<Type::numbers> one) {
  const JsonValue* found = find(one.field);
  if (!found) return std::nullopt;
  if (!found->is_array()) {
    fail_type(one.field.name, *found, "an array of numbers");
    return std::nullopt;
  }
  std::vector<double> list;
  for (const JsonValue& element : found->as_array()) {
    const std::optional<double> value = lenient_number(element);
    if (!value || !(std::abs(*value) <= kLargestListed)) {
      fail_type(fmt::format("{}[{}]", one.field.name, list.size()), element,
                fmt::format("a number of at most {:g} in size", kLargestListed));
      return std::nullopt;
    }
    list.push_back(*value);
  }
  return list;
}

const JsonObject* Fields::object(TypedField<Type::object> one) {
  const JsonValue* found = find(one.field);
  if (!found) return nullptr;
  if (found->is_object()) return &found->as_object();
  fail_type(one.field.name, *found, "an object");
  return nullptr;
}

void Fields::fail(ApiError error) {
  if (!fault_) fault_ = std::move(error);
}

void Fields::fail_type(std::string_view name, const JsonValue& found, std::string_view wanted) {
  fail(bad_value(fmt::format("'{}' is {}; wanted {}", name, describe(found), wanted), std::string(name)));
}

void Fields::fail_range(const Field& field, const JsonValue& found, std::string_view what) {
  const double least = field.takes.least, most = field.takes.most;
  std::string wanted(what);
  if (least > -Takes::kOpen && most >= Takes::kOpen) {
    wanted += fmt::format(" of at least {:g}", least);
  } else if (least > -Takes::kOpen) {
    wanted += fmt::format(" from {:g} to {:g}", least, most);
  }
  fail_type(field.name, found, wanted);
}

}  // namespace fulmar
