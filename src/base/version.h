// The program's version, as CMake knows it.
#pragma once

#include <string_view>

namespace fulmar {

std::string_view program_version();  // "0.2.0"

}  // namespace fulmar
