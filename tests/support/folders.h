// Where the checkout and its build lie. Asked of one file, so that no other one's compilation depends on the
// clone.
#pragma once

#include <filesystem>

namespace fulmar::support {

std::filesystem::path source_folder();  // the root of the checkout
std::filesystem::path build_folder();   // what CMake builds in: the program, the libraries that tests load

}  // namespace fulmar::support
