// The prompt by which RWKV models translate, and the languages' names in it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// "zh-CN", "zh-Hans", "ZH" -> "Chinese": the part of a language tag (RFC 5646) before its first separator
// decides; what is no known code is a name already and stays as it is.
std::string_view language_name(std::string_view code_or_name);
// The code of the language that the script of `text` suggests: kana "ja", else Han "zh-CN", else Cyrillic
// "ru", else "en".
std::string_view guess_language(std::string_view text);

// Codes or names. The answer follows the prompt.
std::string render_translation(std::string_view source, std::string_view target, std::string_view text);
// Whether `text` is of several paragraphs.
bool has_blank_line(std::string_view text);
// The stop texts of answers that translate `texts`, whose languages are `sources` (at least one), into
// `target`. Behind an answer models like to go on with a further text: a blank line, the name of any
// language, a colon. Where no text has a blank line, that line alone ends an answer; else the names that the
// prompts have in them do.
std::vector<std::string> translation_stops(const std::vector<std::string>& texts,
                                           const std::vector<std::string>& sources, std::string_view target);
// What of `answer` translates `text`: up to its first blank line, unless `text` has one, too.
std::string_view own_translation(std::string_view answer, std::string_view text);

}  // namespace fulmar
