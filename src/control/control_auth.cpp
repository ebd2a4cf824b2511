// Reading credentials.
#include "control/control_auth.h"

#include <cstdint>

namespace fulmar {
namespace {

// What follows "<scheme> " in an Authorization header, or nothing.
std::string_view credentials(std::string_view header, std::string_view scheme) {
  if (header.size() <= scheme.size() || header[scheme.size()] != ' ' ||
      !equals_ignoring_case(header.substr(0, scheme.size()), scheme)) {
    return {};
  }
  return header.substr(scheme.size() + 1);
}

}  // namespace

bool equal_secrets(std::string_view secret, std::string_view offered) {
  if (secret.empty()) return false;
  unsigned difference = secret.size() == offered.size() ? 0 : 1;
  for (size_t i = 0; i < offered.size(); ++i) {
    difference |=
        static_cast<unsigned char>(offered[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  }
  return difference == 0;
}

std::string base64_decode(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return {};
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>((bits >> count) & 0xFF));
    }
  }
  return bytes;
}

bool has_control_key(std::string_view password, const Headers& headers, bool basic_counts) {
  if (password.empty()) return true;
  const std::string_view header = headers.get("Authorization");
  if (equal_secrets(password, credentials(header, "Bearer"))) return true;
  if (equal_secrets(password, headers.get("X-Api-Key"))) return true;
  if (!basic_counts) return false;
  const std::string pair = base64_decode(credentials(header, "Basic"));
  const size_t colon = pair.find(':');
  return colon != std::string::npos && equal_secrets(password, std::string_view(pair).substr(colon + 1));
}

}  // namespace fulmar
