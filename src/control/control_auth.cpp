// Reading credentials.
#include "control/control_auth.h"

#include <cstdint>

#include "net/secret.h"

namespace fulmar {
namespace {

// Returns the credentials after "<scheme> " in an Authorization header; empty for another scheme.
std::string_view credentials(std::string_view header, std::string_view scheme) {
  if (header.size() <= scheme.size() || header[scheme.size()] != ' ' ||
      !equals_ignoring_case(header.substr(0, scheme.size()), scheme)) {
    return {};
  }
  return header.substr(scheme.size() + 1);
}

}  // namespace

bool has_control_key(std::string_view password, const Headers& headers, bool basic_counts) {
  if (password.empty()) return true;
  const std::string_view header = headers.get("Authorization");
  if (same_secret(password, credentials(header, "Bearer"))) return true;
  if (same_secret(password, headers.get("X-Api-Key"))) return true;
  if (!basic_counts) return false;
  const std::string pair = from_base64(credentials(header, "Basic"));
  const size_t colon = pair.find(':');
  return colon != std::string::npos && same_secret(password, std::string_view(pair).substr(colon + 1));
}

}  // namespace fulmar
