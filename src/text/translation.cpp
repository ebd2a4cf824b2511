// Language codes, the guess by script, and the template.
#include "text/translation.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"

namespace fulmar {
namespace {

constexpr std::pair<std::string_view, std::string_view> kLanguages[] = {
    {"zh-CN", "Chinese"}, {"zh-TW", "Chinese"}, {"en", "English"}, {"ja", "Japanese"},
    {"fr", "French"},     {"de", "German"},     {"es", "Spanish"}, {"ru", "Russian"},
};

// Of a well-formed character.
char32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  char32_t value = first & (0xFFu >> (character.size() + 1));
  for (const char c : character.substr(1)) value = value << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return value;
}

bool in(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

bool is_kana(char32_t c) { return in(c, 0x3041, 0x30FF) || in(c, 0x31F0, 0x31FF) || in(c, 0xFF66, 0xFF9F); }
bool is_han(char32_t c) {
  return in(c, 0x3400, 0x4DBF) || in(c, 0x4E00, 0x9FFF) || in(c, 0xF900, 0xFAFF) || in(c, 0x20000, 0x323AF);
}
bool is_cyrillic(char32_t c) { return in(c, 0x0400, 0x052F); }

}  // namespace

std::string_view language_name(std::string_view code_or_name) {
  for (const auto& [code, name] : kLanguages) {
    if (code == code_or_name) return name;
  }
  return code_or_name;
}

std::string_view guess_language(std::string_view text) {
  bool han = false, cyrillic = false;
  while (!text.empty()) {
    const Utf8Front front = utf8_front(text);
    if (front.kind == Utf8Front::Kind::character) {
      const char32_t c = code_point(text.substr(0, front.length));
      if (is_kana(c)) return "ja";
      han = han || is_han(c);
      cyrillic = cyrillic || is_cyrillic(c);
    }
    text.remove_prefix(front.length);
  }
  return han ? "zh-CN" : cyrillic ? "ru" : "en";
}

std::string render_translation(std::string_view source, std::string_view target, std::string_view text) {
  return fmt::format("{}: {}\n\n{}:", language_name(source), text, language_name(target));
}

std::string translation_stop(std::string_view source) {
  return fmt::format("\n\n{}:", language_name(source));
}

}  // namespace fulmar
