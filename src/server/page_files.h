// The files of web/, as they were when the program was built.
#pragma once

#include <string_view>

namespace fulmar {

extern const std::string_view kPageHtml;
extern const std::string_view kPageScript;
extern const std::string_view kPageStyle;

}  // namespace fulmar
