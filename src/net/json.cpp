// Parses JSON and reads lenient scalars; the only file that includes the parser library.
#include "net/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <vector>

#include "base/meter.h"
#include "net/json_writer.h"
#include "net/model_json.h"

namespace fulmar {
namespace {

Error invalid_json(std::string_view reason) {
  return {ErrorKind::invalid, "Invalid JSON: " + std::string(reason)};
}

// Returns the first whole number beyond 64 bits that stands outside strings from `at` on; empty: there is
// none.
std::string_view next_large_number(std::string_view text, size_t at) {
  for (; at < text.size(); ++at) {
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
    const std::string_view number = text.substr(at, end - at);
    if (number.empty()) continue;
    at = end - 1;
    const bool negative = number.front() == '-';
    const std::string_view digits = number.substr(negative ? 1 : 0);
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
    int64_t least = 0;
    uint64_t most = 0;
    const auto code = negative ? std::from_chars(number.begin(), number.end(), least).ec
                               : std::from_chars(number.begin(), number.end(), most).ec;
    if (code == std::errc::result_out_of_range) return number;
  }
  return {};
}

// Names the first whole number beyond 64 bits, and where it stands in the text; empty: there is none.
std::string too_large_number(std::string_view text) {
  constexpr size_t kShown = 40;
  const std::string_view number = next_large_number(text, 0);
  if (number.empty()) return {};
  return fmt::format("the whole number {}{} at byte {} does not fit 64 bits", number.substr(0, kShown),
                     number.size() > kShown ? "..." : "", number.data() - text.data());
}

// Returns the text with the nearest doubles in place of whole numbers beyond 64 bits.
std::string with_nearest_doubles(std::string_view text) {
  constexpr size_t kMostDigits = 300;  // no double is beyond that
  std::string nearest;
  size_t copied = 0;
  while (true) {
    const std::string_view number = next_large_number(text, copied);
    if (number.empty()) return nearest.append(text.substr(copied));
    const auto begin = static_cast<size_t>(number.data() - text.data());
    nearest.append(text.substr(copied, begin - copied));
    if (number.size() <= kMostDigits) {
      nearest.append(number).append(".0");
    } else {
      nearest.append(number.front() == '-' ? "-1e308" : "1e308");
    }
    copied = begin + number.size();
  }
}

// Returns whether it is the code for whole numbers beyond 64 bits, which only newer libraries have.
template <class Code>
bool is_too_large(Code code) {
  if constexpr (requires { Code::BIGINT_ERROR; }) return code == Code::BIGINT_ERROR;
  return false;
}

// Returns why parsing failed; `scratch` holds a reason that must be formatted.
std::string_view reason_for(simdjson::error_code code, std::string_view text, const JsonLimits& limits,
                            std::string& scratch) {
  if (code == simdjson::NUMBER_ERROR || is_too_large(code)) {
    scratch = too_large_number(text);
    return scratch.empty() ? "a number is malformed or too large" : std::string_view(scratch);
  }
  switch (code) {
    case simdjson::EMPTY:
      return "the text is empty";
    case simdjson::UTF8_ERROR:
      return "the text is not valid UTF-8";
    case simdjson::DEPTH_ERROR:
      scratch = "nested deeper than " + std::to_string(limits.max_depth) + " levels";
      return scratch;
    case simdjson::STRING_ERROR:
      return "a string holds a bad escape or a lone surrogate";
    case simdjson::UNCLOSED_STRING:
      return "a string is not closed";
    case simdjson::UNESCAPED_CHARS:
      return "a string holds an unescaped control character";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR:
      return "a word is neither true, false nor null";
    case simdjson::MEMALLOC:
      return "there is not enough memory to read it";
    default:
      return "the text does not follow JSON's grammar";
  }
}

// Copies the parser's document into our tree; recursion is bounded by the parser's own depth limit.
class TreeBuilder {
 public:
  TreeBuilder(size_t max_values, bool unique) : values_remaining_(max_values), unique_(unique) {}

  // Tells which object holds a name twice, where names must be unique; empty: none was found.
  std::string doubled() const {
    if (doubled_.empty()) return {};
    return (place_.empty() ? "the object" : "'" + place_ + "'") + " holds " + doubled_ + " twice";
  }

  // Copies one element. Returns false where there are too many values, or a name is repeated.
  bool build(simdjson::dom::element element, JsonValue& out) {
    if (values_remaining_ == 0) return false;
    values_remaining_--;
    count_work(kStepsOfValue);
    switch (element.type()) {
      case simdjson::dom::element_type::NULL_VALUE:
        out = JsonValue();
        return true;
      case simdjson::dom::element_type::BOOL:
        out = JsonValue(element.get_bool().value_unsafe());
        return true;
      case simdjson::dom::element_type::INT64:
        out = JsonValue(element.get_int64().value_unsafe());
        return true;
      case simdjson::dom::element_type::UINT64:
        out = JsonValue(element.get_uint64().value_unsafe());
        return true;
      case simdjson::dom::element_type::DOUBLE:
        out = JsonValue(element.get_double().value_unsafe());
        return true;
      case simdjson::dom::element_type::STRING:
        return build_string(element.get_string().value_unsafe(), out);
      case simdjson::dom::element_type::ARRAY:
        return build_array(element.get_array().value_unsafe(), out);
      case simdjson::dom::element_type::OBJECT:
        return build_object(element.get_object().value_unsafe(), out);
    }
    return false;
  }

 private:
  static constexpr uint64_t kStepsOfValue = 8;

  static bool build_string(std::string_view text, JsonValue& out) {
    count_work(text.size());
    out = JsonValue(std::string(text));
    return true;
  }

  bool build_array(simdjson::dom::array array, JsonValue& out) {
    JsonValue::Array items;
    items.reserve(std::min(array.size(), values_remaining_));
    for (const simdjson::dom::element item : array) {
      if (build(item, items.emplace_back())) continue;
      return stop_within("[" + std::to_string(items.size() - 1) + "]");
    }
    out = JsonValue(std::move(items));
    return true;
  }

  bool build_object(simdjson::dom::object object, JsonValue& out) {
    std::vector<JsonObject::Member> members;
    members.reserve(std::min(object.size(), values_remaining_));
    for (const auto& [key, item] : object) {
      count_work(key.size());
      auto& member = members.emplace_back(std::string(key), JsonValue());
      if (!build(item, member.second)) return stop_within(std::string(key.substr(0, kShownName)));
    }
    const size_t written = members.size();
    JsonObject made(std::move(members));
    if (unique_ && made.members().size() < written) {
      doubled_ = doubled_name(object);
      return false;
    }
    out = JsonValue(std::move(made));
    return true;
  }

  // Puts the place of a value that was not built before what is known of it. Returns false.
  bool stop_within(const std::string& place) {
    const bool member = !place_.empty() && place_.front() != '[';
    if (!doubled_.empty()) place_ = place + (member ? "." : "") + place_;
    return false;
  }

  static std::string doubled_name(simdjson::dom::object object) {
    std::vector<std::string_view> names;
    for (const auto& [name, item] : object) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    return "'" + std::string(twice == names.end() ? "" : twice->substr(0, kShownName)) + "'";
  }

  static constexpr size_t kShownName = 80;
  size_t values_remaining_;
  bool unique_;
  std::string doubled_, place_;
};

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::optional<int64_t> whole(double number) {
  // Both bounds are exact powers of two; 2^63 itself no longer fits.
  if (number < -0x1p63 || number >= 0x1p63 || number != std::trunc(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<int64_t> integer_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc() && end == text.data() + text.size()) return number;
  const std::optional<double> wide = number_in(text);
  return wide ? whole(*wide) : std::nullopt;
}

Error wrong_type(std::string_view field, const JsonValue& found, std::string_view wanted) {
  return {ErrorKind::invalid, fmt::format("'{}' is {}, wanted {}", field, describe(found), wanted)};
}

template <class Number>
Error out_of_range(std::string_view field, Number found, Number least, Number most) {
  const auto text = [](Number n) { return JsonWriter().value(n).take(); };
  std::string wanted = text(least) + " to " + text(most);
  if (most == std::numeric_limits<Number>::max()) wanted = "at least " + text(least);
  if (least == std::numeric_limits<Number>::lowest()) wanted = "at most " + text(most);
  return {ErrorKind::invalid, fmt::format("'{}' is {}, wanted {}", field, text(found), wanted)};
}

// Returns the member if there is one that is not null.
const JsonValue* present(const JsonValue& object, std::string_view field) {
  const JsonValue* value = object.find(field);
  return value && !value->is_null() ? value : nullptr;
}

}  // namespace

Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.size() > limits.max_bytes) {
    return invalid_json(std::to_string(text.size()) + " bytes, wanted at most " +
                        std::to_string(limits.max_bytes));
  }
  count_work(text.size());
  try {
    simdjson::dom::parser parser;
    std::string scratch;
    if (const auto code = parser.allocate(text.size(), limits.max_depth); code != simdjson::SUCCESS) {
      return invalid_json(reason_for(code, text, limits, scratch));
    }
    simdjson::dom::element root;
    if (const auto code = parser.parse(text.data(), text.size()).get(root); code != simdjson::SUCCESS) {
      return invalid_json(reason_for(code, text, limits, scratch));
    }
    JsonValue tree;
    TreeBuilder builder(limits.max_values, !limits.doubled_names);
    if (!builder.build(root, tree)) {
      if (!builder.doubled().empty()) {
        return invalid_json(builder.doubled() + ", wanted each name once");
      }
      return invalid_json("more than " + std::to_string(limits.max_values) + " values");
    }
    return tree;
  } catch (const std::exception& failure) {
    return invalid_json(failure.what());
  }
}

Result<JsonValue> parse_model_json(std::string_view text) {
  auto exact = parse_json(text, kModelJson);
  if (exact || next_large_number(text, 0).empty()) return exact;
  return parse_json(with_nearest_doubles(text), kModelJson);
}

std::optional<bool> lenient_bool(const JsonValue& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_number()) {
    if (value.as_double() == 0) return false;
    if (value.as_double() == 1) return true;
  }
  if (value.is_string()) {
    if (value.as_string() == "true" || value.as_string() == "True") return true;
    if (value.as_string() == "false" || value.as_string() == "False") return false;
  }
  return std::nullopt;
}

std::optional<int64_t> lenient_int(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::int64:
      return value.as_int64();
    case JsonValue::Kind::number:
      return whole(value.as_double());
    case JsonValue::Kind::string:
      return integer_in(value.as_string());
    default:
      return std::nullopt;
  }
}

std::optional<double> lenient_number(const JsonValue& value) {
  if (value.is_number()) return value.as_double();
  if (value.is_string()) return number_in(value.as_string());
  return std::nullopt;
}

Result<std::optional<bool>> get_bool(const JsonValue& object, std::string_view field) {
  const JsonValue* value = present(object, field);
  if (!value) return std::optional<bool>();
  const std::optional<bool> flag = lenient_bool(*value);
  if (!flag) return wrong_type(field, *value, "a boolean");
  return flag;
}

Result<std::optional<int64_t>> get_int(const JsonValue& object, std::string_view field, int64_t least,
                                       int64_t most) {
  const JsonValue* value = present(object, field);
  if (!value) return std::optional<int64_t>();
  const std::optional<int64_t> number = lenient_int(*value);
  if (!number) return wrong_type(field, *value, "an integer of 64 bits");
  if (*number < least || *number > most) return out_of_range(field, *number, least, most);
  return number;
}

Result<std::optional<double>> get_number(const JsonValue& object, std::string_view field, double least,
                                         double most) {
  const JsonValue* value = present(object, field);
  if (!value) return std::optional<double>();
  const std::optional<double> number = lenient_number(*value);
  if (!number) return wrong_type(field, *value, "a finite number");
  if (*number < least || *number > most) return out_of_range(field, *number, least, most);
  return number;
}

Result<std::optional<std::string>> get_string(const JsonValue& object, std::string_view field) {
  const JsonValue* value = present(object, field);
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(field, *value, "a string");
  return std::optional<std::string>(value->as_string());
}

Result<const JsonValue::Array*> get_array(const JsonValue& object, std::string_view field) {
  const JsonValue* value = present(object, field);
  if (!value) return static_cast<const JsonValue::Array*>(nullptr);
  if (!value->is_array()) return wrong_type(field, *value, "an array");
  return &value->as_array();
}

Result<const JsonObject*> get_object(const JsonValue& object, std::string_view field) {
  const JsonValue* value = present(object, field);
  if (!value) return static_cast<const JsonObject*>(nullptr);
  if (!value->is_object()) return wrong_type(field, *value, "an object");
  return &value->as_object();
}

}  // namespace fulmar
