// The program's version, as CMake knows it.
#pragma once

#include <string_view>

namespace fulmar {

inline constexpr std::string_view kFulmarVersion = FULMAR_VERSION;

}  // namespace fulmar
