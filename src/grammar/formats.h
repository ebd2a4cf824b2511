// The values of `format` that are kept, as patterns.
#pragma once

#include <string_view>

namespace fulmar {

// What strings of the format look like, as a pattern anchored at both ends; some formats admit more forms
// than are written. Empty: an annotation only.
std::string_view format_pattern(std::string_view format);

// The texts of Base64 (RFC 4648, section 4), padded.
std::string_view base64_pattern();
// The pattern of strings that nobody takes for one of this format; empty: none is known.
std::string_view missed_format_pattern(std::string_view format);

}  // namespace fulmar
