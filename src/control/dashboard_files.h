// The dashboard's files, as they were when the program was built.
#pragma once

#include <string_view>

namespace fulmar {

extern const std::string_view kDashboardHtml;
extern const std::string_view kDashboardScript;
extern const std::string_view kDashboardStyle;
extern const std::string_view kDashboardBaseStyle;

}  // namespace fulmar
