// Language codes, the guess by script, and the template.
#include "text/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/strip.h"
#include "base/utf8.h"

namespace fulmar {
namespace {

// Names by the primary subtag of ISO 639.
constexpr std::pair<std::string_view, std::string_view> kLanguages[] = {
    {"af", "Afrikaans"}, {"sq", "Albanian"},    {"am", "Amharic"},       {"ar", "Arabic"},
    {"hy", "Armenian"},  {"az", "Azerbaijani"}, {"eu", "Basque"},        {"be", "Belarusian"},
    {"bn", "Bengali"},   {"bs", "Bosnian"},     {"bg", "Bulgarian"},     {"my", "Burmese"},
    {"ca", "Catalan"},   {"zh", "Chinese"},     {"yue", "Cantonese"},    {"hr", "Croatian"},
    {"cs", "Czech"},     {"da", "Danish"},      {"nl", "Dutch"},         {"en", "English"},
    {"eo", "Esperanto"}, {"et", "Estonian"},    {"fil", "Filipino"},     {"tl", "Filipino"},
    {"fi", "Finnish"},   {"fr", "French"},      {"gl", "Galician"},      {"ka", "Georgian"},
    {"de", "German"},    {"el", "Greek"},       {"gu", "Gujarati"},      {"ht", "Haitian Creole"},
    {"ha", "Hausa"},     {"he", "Hebrew"},      {"iw", "Hebrew"},        {"hi", "Hindi"},
    {"hu", "Hungarian"}, {"is", "Icelandic"},   {"id", "Indonesian"},    {"in", "Indonesian"},
    {"ga", "Irish"},     {"it", "Italian"},     {"ja", "Japanese"},      {"jv", "Javanese"},
    {"kn", "Kannada"},   {"kk", "Kazakh"},      {"km", "Khmer"},         {"ko", "Korean"},
    {"ku", "Kurdish"},   {"ky", "Kyrgyz"},      {"lo", "Lao"},           {"la", "Latin"},
    {"lv", "Latvian"},   {"lt", "Lithuanian"},  {"lb", "Luxembourgish"}, {"mk", "Macedonian"},
    {"ms", "Malay"},     {"ml", "Malayalam"},   {"mt", "Maltese"},       {"mi", "Maori"},
    {"mr", "Marathi"},   {"mn", "Mongolian"},   {"ne", "Nepali"},        {"no", "Norwegian"},
    {"nb", "Norwegian"}, {"nn", "Norwegian"},   {"ps", "Pashto"},        {"fa", "Persian"},
    {"pl", "Polish"},    {"pt", "Portuguese"},  {"pa", "Punjabi"},       {"ro", "Romanian"},
    {"ru", "Russian"},   {"sr", "Serbian"},     {"si", "Sinhala"},       {"sk", "Slovak"},
    {"sl", "Slovenian"}, {"so", "Somali"},      {"es", "Spanish"},       {"su", "Sundanese"},
    {"sw", "Swahili"},   {"sv", "Swedish"},     {"tg", "Tajik"},         {"ta", "Tamil"},
    {"tt", "Tatar"},     {"te", "Telugu"},      {"th", "Thai"},          {"bo", "Tibetan"},
    {"tr", "Turkish"},   {"tk", "Turkmen"},     {"uk", "Ukrainian"},     {"ur", "Urdu"},
    {"ug", "Uyghur"},    {"uz", "Uzbek"},       {"vi", "Vietnamese"},    {"cy", "Welsh"},
    {"xh", "Xhosa"},     {"yi", "Yiddish"},     {"yo", "Yoruba"},        {"zu", "Zulu"},
};

// Returns the code point of a well-formed character.
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

// Returns where the first line of white space begins, of a text without white space at its ends.
size_t blank_line(std::string_view text) {
  size_t from = text.find('\n');
  while (from != std::string_view::npos) {
    const size_t next = text.find_first_not_of(kWhiteSpace, from);
    const std::string_view between = text.substr(from + 1, next - from - 1);
    if (between.find('\n') != std::string_view::npos) return from;
    from = text.find('\n', next);
  }
  return from;
}

}  // namespace

std::string_view language_name(std::string_view code_or_name) {
  const std::string_view primary = code_or_name.substr(0, code_or_name.find_first_of("-_"));
  const auto same = [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); };
  for (const auto& [code, name] : kLanguages) {
    if (std::equal(code.begin(), code.end(), primary.begin(), primary.end(), same)) return name;
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

bool has_blank_line(std::string_view text) { return blank_line(stripped(text)) != std::string_view::npos; }

std::vector<std::string> translation_stops(const std::vector<std::string>& texts,
                                           const std::vector<std::string>& sources, std::string_view target) {
  if (std::none_of(texts.begin(), texts.end(), has_blank_line)) return {"\n\n"};
  std::vector<std::string> stops;
  const auto add = [&](std::string_view language) {
    std::string stop = fmt::format("\n\n{}:", language_name(language));
    if (std::find(stops.begin(), stops.end(), stop) == stops.end()) stops.push_back(std::move(stop));
  };
  for (const std::string& source : sources) add(source);
  add(target);
  return stops;
}

std::string_view own_translation(std::string_view answer, std::string_view text) {
  const std::string_view translated = stripped(answer);
  return has_blank_line(text) ? translated : stripped(translated.substr(0, blank_line(translated)));
}

}  // namespace fulmar
