// The checksum that tells known files apart.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// Returns SHA-256 as 64 lower-case hexadecimal digits; empty if the library refuses.
std::string sha256_hex(std::string_view bytes);

}  // namespace fulmar
