// The prompt with which RWKV models translate, and the languages' names in it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// Returns the language's name for "zh-CN", "zh-Hans" or "ZH": "Chinese". The part of a language tag (RFC
// 5646) before its first separator decides; what is no known code counts as a name and is returned unchanged.
std::string_view language_name(std::string_view code_or_name);
// Returns the code of the language that the script of `text` suggests: kana "ja", else Han "zh-CN", else
// Cyrillic "ru", else "en".
std::string_view guess_language(std::string_view text);

// Renders the prompt, which the answer follows. Languages are codes or names.
std::string render_translation(std::string_view source, std::string_view target, std::string_view text);
// Returns whether `text` has several paragraphs.
bool has_blank_line(std::string_view text);
// Returns the stop texts for answers that translate `texts`, whose languages are `sources` (at least one),
// into `target`. After an answer models tend to continue with another text: a blank line, the name of any
// language, a colon. If no text has a blank line, a blank line ends an answer; otherwise the languages' names
// in the prompts do.
std::vector<std::string> translation_stops(const std::vector<std::string>& texts,
                                           const std::vector<std::string>& sources, std::string_view target);
// Returns what of `answer` translates `text`: up to its first blank line, unless `text` has one, too.
std::string_view own_translation(std::string_view answer, std::string_view text);

}  // namespace fulmar
