#include "adapters/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>

#include "base/utf8.h"
#include "files/bytes.h"

namespace fulmar {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kDeepest = 32;

// Returns a name that stands twice in an object, at any depth; nothing where there is none.
std::optional<std::string> repeated_name(dom::element element) {
  if (element.is_array()) {
    for (const dom::element item : dom::array(element)) {
      if (auto found = repeated_name(item)) return found;
    }
  }
  if (!element.is_object()) return std::nullopt;
  std::set<std::string_view> names;
  for (const dom::key_value_pair member : dom::object(element)) {
    if (!names.insert(member.key).second) return std::string(member.key);
    if (auto found = repeated_name(member.value)) return found;
  }
  return std::nullopt;
}

// Returns "\\u00e9" for the character of several bytes at the front, two such for one beyond 16 bits.
std::string escaped_character(std::string_view text) {
  const size_t length = utf8_front(text).length;
  uint32_t code = static_cast<unsigned char>(text[0]) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; i++) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  code -= 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

std::string number_text(double value) {
  char raw[40];
  std::string text(raw, static_cast<size_t>(std::snprintf(raw, sizeof(raw), "%.17g", value)));
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

void write(dom::element element, std::string& out);

void write_object(dom::object object, std::initializer_list<std::string_view> left_out, std::string& out) {
  std::map<std::string_view, dom::element> sorted;
  for (const dom::key_value_pair member : object) {
    if (std::find(left_out.begin(), left_out.end(), member.key) == left_out.end()) {
      sorted.emplace(member.key, member.value);
    }
  }
  out += '{';
  for (const auto& [name, value] : sorted) {
    if (out.back() != '{') out += ',';
    out += json_string(name) + ":";
    write(value, out);
  }
  out += '}';
}

void write(dom::element element, std::string& out) {
  switch (element.type()) {
    case dom::element_type::ARRAY:
      out += '[';
      for (const dom::element item : dom::array(element)) {
        if (out.back() != '[') out += ',';
        write(item, out);
      }
      out += ']';
      break;
    case dom::element_type::OBJECT:
      write_object(dom::object(element), {}, out);
      break;
    case dom::element_type::STRING:
      out += json_string(std::string_view(element));
      break;
    case dom::element_type::DOUBLE:
      out += number_text(double(element));
      break;
    case dom::element_type::INT64:
      out += std::to_string(int64_t(element));
      break;
    case dom::element_type::UINT64:
      out += std::to_string(uint64_t(element));
      break;
    case dom::element_type::BOOL:
      out += bool(element) ? "true" : "false";
      break;
    default:
      out += "null";
  }
}

}  // namespace

Result<ConfigJson> ConfigJson::parse(std::string_view what, const std::string& text) {
  ConfigJson config;
  config.what_ = what;
  config.parser_ = std::make_unique<dom::parser>();
  const auto broken = [&](std::string_view why) {
    return Error{ErrorKind::corrupt, fmt::format("{} {}", what, why)};
  };
  if (config.parser_->allocate(text.size() + simdjson::SIMDJSON_PADDING, kDeepest) != simdjson::SUCCESS) {
    return Error{ErrorKind::resource, fmt::format("no memory for {}", what)};
  }
  dom::element document;
  if (const auto error = config.parser_->parse(text).get(document); error != simdjson::SUCCESS) {
    return broken(fmt::format("is not JSON: {}", simdjson::error_message(error)));
  }
  if (document.get(config.object_) != simdjson::SUCCESS) return broken("is no JSON object");
  if (const auto twice = repeated_name(document)) {
    return broken(fmt::format("has '{}' twice in one object", printable(*twice)));
  }
  return config;
}

std::optional<dom::element> ConfigJson::find(std::string_view name) const {
  dom::element value;
  if (object_.at_key(name).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool ConfigJson::truthy(std::string_view name) const {
  const auto value = find(name);
  if (!value) return false;
  const std::string text = simdjson::minify(*value);
  return text != "false" && text != "0" && text != "0.0" && text != "\"\"" && text != "[]" && text != "{}";
}

Error ConfigJson::wrong(std::string_view name, std::string_view wanted) const {
  const auto value = find(name);
  const std::string found = value ? printable(simdjson::minify(*value)) : "missing";
  return {ErrorKind::corrupt, fmt::format("{}: {} is {}; wanted {}", what_, name, found, wanted)};
}

Result<double> ConfigJson::number(std::string_view name, std::optional<double> fallback) const {
  if (object_.at_key(name).error() != simdjson::SUCCESS && fallback) return *fallback;
  const auto value = find(name);
  double number = 0;
  if (!value || !value->is_number() || value->get(number) != simdjson::SUCCESS) {
    return wrong(name, "a number");
  }
  return number;
}

Result<int64_t> ConfigJson::integer(std::string_view name, std::optional<int64_t> fallback) const {
  if (object_.at_key(name).error() != simdjson::SUCCESS && fallback) return *fallback;
  const auto value = find(name);
  int64_t number = 0;
  if (!value || value->get(number) != simdjson::SUCCESS) return wrong(name, "a whole number");
  return number;
}

Result<std::string> ConfigJson::text(std::string_view name, std::optional<std::string> fallback) const {
  if (object_.at_key(name).error() != simdjson::SUCCESS && fallback) return *fallback;
  const auto value = find(name);
  std::string_view text;
  if (!value || value->get(text) != simdjson::SUCCESS) return wrong(name, "text");
  return std::string(text);
}

std::string jsoncpp_text(dom::object object, std::initializer_list<std::string_view> left_out) {
  std::string out;
  write_object(object, left_out, out);
  return out;
}

std::string json_string(std::string_view raw) {
  const std::string text = to_utf8(raw);
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    constexpr std::string_view kNamed = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    if (const size_t at = kNamed.find(text[i]); at != std::string_view::npos) {
      out += {'\\', kLetters[at]};
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else if (byte < 0x80) {
      out += text[i];
    } else {
      out += escaped_character(std::string_view(text).substr(i));
    }
    i += byte < 0x80 ? 1 : utf8_front(std::string_view(text).substr(i)).length;
  }
  return out + "\"";
}

}  // namespace fulmar
