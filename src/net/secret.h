// Compares keys in constant time, and converts the base64 of HTTP Basic and of embeddings; by
// OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// Returns whether the two are equal, in a time that depends on their lengths only. False for an empty secret.
bool same_secret(std::string_view secret, std::string_view offered);

std::string base64_of(std::string_view bytes);
// Decodes base64; padding may be missing. Returns an empty text for anything else.
std::string from_base64(std::string_view text);

}  // namespace fulmar
