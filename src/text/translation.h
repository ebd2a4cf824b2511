// The prompt by which RWKV models translate, and the languages' names in it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// "zh-CN", "zh-Hans", "ZH" -> "Chinese": the part of a language tag (RFC 5646) before its first separator
// decides; what is no known code is a name already and stays as it is.
std::string_view language_name(std::string_view code_or_name);
// The code of the language that the script of `text` suggests: kana "ja", else Han "zh-CN", else Cyrillic
// "ru", else "en".
std::string_view guess_language(std::string_view text);

// Codes or names. The answer follows the prompt.
std::string render_translation(std::string_view source, std::string_view target, std::string_view text);
// A stop text: the model would go on with a further text in that language.
std::string translation_stop(std::string_view language);

}  // namespace fulmar
