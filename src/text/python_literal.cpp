// Python string literals: quotes, escapes, and nothing that would have to be executed.
#include "text/python_literal.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

#include "base/utf8.h"

namespace fulmar {
namespace {

Error wrong(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

std::optional<char> simple_escape(char letter) {
  switch (letter) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return std::nullopt;
  }
}

size_t digits_of(char letter, bool is_bytes) {
  if (letter == 'x') return 2;
  if (letter == 'u' && !is_bytes) return 4;
  if (letter == 'U' && !is_bytes) return 8;
  return 0;
}

// Reads the escape at the start of `rest` (after the backslash), removes it and appends its meaning.
Status take_escape(std::string_view& rest, bool is_bytes, std::string& out) {
  if (rest.empty()) return wrong("found a backslash at the end of the literal");
  const char letter = rest[0];
  rest.remove_prefix(1);
  if (const auto plain = simple_escape(letter)) {
    out += *plain;
    return {};
  }
  const size_t digits = digits_of(letter, is_bytes);
  if (digits == 0) {
    return wrong(fmt::format("found the escape '\\{}', wanted one of \\t \\n \\r \\\\ \\' \\\" \\x{}",
                             to_utf8({&letter, 1}), is_bytes ? "" : " \\u \\U"));
  }
  uint32_t value = 0;
  const std::string_view text = rest.substr(0, digits);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + digits) {
    return wrong(fmt::format("found '\\{}{}', wanted {} hexadecimal digits", letter, to_utf8(text), digits));
  }
  rest.remove_prefix(digits);
  if (is_bytes) {
    out += static_cast<char>(value);
  } else if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return wrong(fmt::format("found code point {:#x}, wanted one that UTF-8 can express", value));
  } else {
    append_utf8(static_cast<char32_t>(value), out);
  }
  return {};
}

}  // namespace

Result<std::string> parse_python_literal(std::string_view literal) {
  const bool is_bytes = literal.starts_with('b');
  std::string_view rest = literal.substr(is_bytes ? 1 : 0);
  if (rest.size() < 2 || (rest[0] != '\'' && rest[0] != '"') || rest.back() != rest[0]) {
    return wrong(fmt::format("found {}, wanted '..', \"..\" or b'..'",
                             literal.empty() ? "nothing" : to_utf8(literal.substr(0, 40))));
  }
  const char quote = rest[0];
  rest = rest.substr(1, rest.size() - 2);
  std::string out;
  while (!rest.empty()) {
    const char c = rest[0];
    rest.remove_prefix(1);
    if (c == '\\') {
      FULMAR_TRY(take_escape(rest, is_bytes, out));
    } else if (c == quote) {
      return wrong("found a quotation mark inside the literal, wanted it escaped");
    } else if (is_bytes && static_cast<unsigned char>(c) >= 0x80) {
      return wrong("found a byte above 0x7f in a bytes literal, wanted it escaped");
    } else {
      out += c;
    }
  }
  if (!is_bytes && !is_utf8(out)) return wrong("found bytes that are no UTF-8 in a text literal");
  return out;
}

}  // namespace fulmar
