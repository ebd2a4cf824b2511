// Escaping and number forms of the JSON writer.
#include "net/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/meter.h"
#include "base/utf8.h"

namespace fulmar {
namespace {

enum ByteClass : unsigned char { kPlain, kEscaped, kMultiByte };

constexpr std::array<unsigned char, 256> kByteClass = [] {
  std::array<unsigned char, 256> table{};
  for (size_t i = 0; i < 0x20; i++) table[i] = kEscaped;
  for (size_t i = 0x80; i < 0x100; i++) table[i] = kMultiByte;
  table['"'] = table['\\'] = kEscaped;
  return table;
}();

ByteClass class_of(char c) { return static_cast<ByteClass>(kByteClass[static_cast<unsigned char>(c)]); }

void append_escape(std::string& out, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out.append("\\\"");
      return;
    case '\\':
      out.append("\\\\");
      return;
    case '\n':
      out.append("\\n");
      return;
    case '\r':
      out.append("\\r");
      return;
    case '\t':
      out.append("\\t");
      return;
    case '\b':
      out.append("\\b");
      return;
    case '\f':
      out.append("\\f");
      return;
    default:
      out.append("\\u00").append({kDigits[(c >> 4) & 15], kDigits[c & 15]});
  }
}

// From here on digits alone would read as a whole number, perhaps one beyond 64 bits.
constexpr double kLargestPlain = 1e15;

template <class Number, class... Format>
void append_number(std::string& out, Number number, Format... format) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, format...).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

}  // namespace

void JsonWriter::separate() {
  if (comma_due_) text_.push_back(',');
  comma_due_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_.push_back(bracket);
  comma_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_.push_back(bracket);
  comma_due_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_.push_back(':');
  comma_due_ = false;
  return *this;
}

JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::value(bool flag) { return raw(flag ? "true" : "false"); }

JsonWriter& JsonWriter::signed_value(int64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

JsonWriter& JsonWriter::unsigned_value(uint64_t number) {
  separate();
  append_number(text_, number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) { return floating_value(number); }

JsonWriter& JsonWriter::value(float number) { return floating_value(number); }

template <class Float>
JsonWriter& JsonWriter::floating_value(Float number) {
  if (!std::isfinite(number)) return null();
  if (number == 0 && std::signbit(number)) return raw("-0.0");  // "-0" would read as a whole number
  separate();
  if (std::abs(number) < kLargestPlain) {
    append_number(text_, number);
  } else {
    append_number(text_, number, std::chars_format::scientific);
  }
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(const JsonValue& tree) {
  switch (tree.kind()) {
    case JsonValue::Kind::null:
      return null();
    case JsonValue::Kind::boolean:
      return value(tree.as_bool());
    case JsonValue::Kind::int64:
      return value(tree.as_int64());
    case JsonValue::Kind::uint64:
      return value(tree.as_uint64());
    case JsonValue::Kind::number:
      return value(tree.as_double());
    case JsonValue::Kind::string:
      return value(tree.as_string());
    case JsonValue::Kind::array:
      begin_array();
      for (const JsonValue& item : tree.as_array()) value(item);
      return end_array();
    case JsonValue::Kind::object:
      begin_object();
      for (const auto& [name, item] : tree.as_object().members()) key(name).value(item);
      return end_object();
  }
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_.append(json);
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  count_work(text.size());
  text_.push_back('"');
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && class_of(text[plain]) == kPlain) plain++;
    text_.append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    if (class_of(text.front()) == kEscaped) {
      append_escape(text_, text.front());
      text.remove_prefix(1);
      continue;
    }
    const Utf8Front front = utf8_front(text);
    const bool whole = front.kind == Utf8Front::Kind::character;
    text_.append(whole ? text.substr(0, front.length) : kReplacementCharacter);
    text.remove_prefix(front.length);
  }
  text_.push_back('"');
}

std::string json_quoted(std::string_view text) { return JsonWriter().value(text).take(); }

}  // namespace fulmar
