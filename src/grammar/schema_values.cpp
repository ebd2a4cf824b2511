// Reading keywords, following references, and the errors they share.
#include "grammar/schema_values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr double kLargestCount = 1e9;

// "~1" is '/', "~0" is '~'.
std::string unescaped(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escape = part[i] == '~' && i + 1 < part.size();
    name += !escape ? part[i] : part[++i] == '1' ? '/' : '~';
  }
  return name;
}

const JsonValue* child(const JsonValue& value, const std::string& name) {
  if (!value.is_array()) return value.find(name);
  size_t index = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = fault == std::errc() && end == name.data() + name.size();
  return whole && index < value.as_array().size() ? &value.as_array()[index] : nullptr;
}

}  // namespace

std::string json_text(const JsonValue& value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

bool is_of_type(const JsonValue& value, std::string_view type) {
  switch (value.kind()) {
    case JsonValue::Kind::null:
      return type == "null";
    case JsonValue::Kind::boolean:
      return type == "boolean";
    case JsonValue::Kind::int64:
    case JsonValue::Kind::uint64:
      return type == "integer" || type == "number";
    case JsonValue::Kind::number:
      return type == "number" || (type == "integer" && value.as_double() == std::floor(value.as_double()));
    case JsonValue::Kind::string:
      return type == "string";
    case JsonValue::Kind::array:
      return type == "array";
    case JsonValue::Kind::object:
      return type == "object";
  }
  return false;
}

Result<const JsonValue*> find_reference(const JsonValue& document, const JsonValue& reference) {
  const auto refuse = [](std::string_view why) { return Error{ErrorKind::unsupported, std::string(why)}; };
  if (!reference.is_string() || !reference.as_string().starts_with('#')) {
    return refuse("wanted a place within the schema such as \"#/$defs/name\"");
  }
  const JsonValue* at = &document;
  std::string_view rest = std::string_view(reference.as_string()).substr(1);
  while (!rest.empty()) {
    if (rest.front() != '/') return refuse("wanted '#' or '#/...'");
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    at = child(*at, unescaped(rest.substr(0, end)));
    if (!at) return refuse("there is no such place");
    rest.remove_prefix(end);
  }
  return at;
}

Result<std::optional<int64_t>> count_of(const JsonValue& schema, std::string_view keyword,
                                        const std::string& where) {
  const JsonValue* value = schema.find(keyword);
  if (!value) return std::optional<int64_t>();
  const double number = value->is_number() ? value->as_double() : -1;
  if (number < 0 || number > kLargestCount || number != std::floor(number)) {
    return invalid_keyword(where, keyword, *value, "a whole number of 0 to 1000000000");
  }
  return std::optional<int64_t>(static_cast<int64_t>(number));
}

Result<std::optional<double>> number_of(const JsonValue& schema, std::string_view keyword,
                                        const std::string& where) {
  const JsonValue* value = schema.find(keyword);
  if (!value) return std::optional<double>();
  if (!value->is_number()) return invalid_keyword(where, keyword, *value, "a number");
  return std::optional<double>(value->as_double());
}

Error invalid_keyword(const std::string& where, std::string_view keyword, const JsonValue& found,
                      std::string_view wanted) {
  return {ErrorKind::invalid, fmt::format("schema keyword '{}' at '{}' is {}; wanted {}", keyword, where,
                                          describe(found), wanted)};
}

Error unsupported_keyword(const std::string& where, std::string_view keyword, std::string_view why) {
  return {ErrorKind::unsupported, fmt::format("schema keyword '{}' at '{}' {}", keyword, where, why)};
}

Error nothing_fits(const std::string& where) {
  return {ErrorKind::invalid, fmt::format("the schema at '{}' admits no value", where)};
}

}  // namespace fulmar
