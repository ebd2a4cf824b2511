// What keys are compared with, in constant time, and the base64 that HTTP Basic and embeddings use; by
// OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// Takes a time that depends on the lengths only. False for an empty secret.
bool same_secret(std::string_view secret, std::string_view offered);

std::string base64_of(std::string_view bytes);
// An empty text for what is not base64; padding may be missing.
std::string from_base64(std::string_view text);

}  // namespace fulmar
