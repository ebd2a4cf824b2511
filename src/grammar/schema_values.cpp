// Values as texts, counts, and the words of errors.
#include "grammar/schema_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr double kLargestCount = 1e9;
constexpr double kLargestExact = 9'007'199'254'740'992.0;
constexpr size_t kLongestKeyword = 64;

void append_same(const JsonValue& value, std::string& text) {
  if (value.is_array()) {
    text += '[';
    for (const JsonValue& one : value.as_array()) {
      append_same(one, text);
      text += ',';
    }
    text += ']';
  } else if (value.is_object()) {
    std::vector<const JsonObject::Member*> members;
    for (const auto& member : value.as_object().members()) members.push_back(&member);
    std::sort(members.begin(), members.end(),
              [](auto* one, auto* other) { return one->first < other->first; });
    text += '{';
    for (const auto* member : members) {
      text += json_quoted(member->first) + ":";
      append_same(member->second, text);
      text += ',';
    }
    text += '}';
  } else if (value.kind() == JsonValue::Kind::number && is_whole(value) &&
             std::abs(value.as_double()) <= kLargestExact) {
    text += std::to_string(static_cast<int64_t>(value.as_double()));
  } else {
    text += json_text(value);
  }
}

}  // namespace

std::string json_text(const JsonValue& value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

std::string same_text(const JsonValue& value) {
  std::string text;
  append_same(value, text);
  return text;
}

bool is_whole(const JsonValue& number) {
  return number.kind() != JsonValue::Kind::number || number.as_double() == std::floor(number.as_double());
}

std::optional<int64_t> count_of(const JsonValue& value) {
  const double number = value.is_number() ? value.as_double() : -1;
  if (number < 0 || number > kLargestCount || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Error invalid_keyword(const std::string& where, std::string_view keyword, const JsonValue& found,
                      std::string_view wanted) {
  return {ErrorKind::invalid, fmt::format("schema keyword '{}' at '{}' is {}; wanted {}", keyword, where,
                                          describe(found), wanted)};
}

Error unsupported_keyword(const std::string& where, std::string_view keyword, std::string_view why) {
  return {ErrorKind::unsupported,
          fmt::format("schema keyword '{}' at '{}' {}", keyword.substr(0, kLongestKeyword), where, why)};
}

}  // namespace fulmar
