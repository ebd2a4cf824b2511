// The values of `format` that are kept, as patterns.
#pragma once

#include <string_view>

namespace fulmar {

// What strings of the format look like, as a pattern anchored at both ends; some formats admit more forms
// than are written. Empty: an annotation only.
std::string_view format_pattern(std::string_view format);
// The pattern of all strings that anybody takes for one of this format; empty: it is not known.
std::string_view widest_format_pattern(std::string_view format);

}  // namespace fulmar
