// Reading Fetch metadata (W3C) and Origin (RFC 6454).
#include "net/cross_site.h"

namespace fulmar {

bool is_cross_site(const Headers& headers) {
  // "same-site" counts as another site: it may be another port of this host.
  if (const std::string* site = headers.find("Sec-Fetch-Site")) {
    return !equals_ignoring_case(*site, "same-origin") && !equals_ignoring_case(*site, "none");
  }
  const std::string* origin = headers.find("Origin");
  if (!origin) return false;
  constexpr std::string_view kSeparator = "://";
  const size_t scheme = origin->find(kSeparator);
  if (scheme == std::string::npos) return true;  // "null": a page that hides where it is from
  return !equals_ignoring_case(std::string_view(*origin).substr(scheme + kSeparator.size()),
                               headers.get("Host"));
}

}  // namespace fulmar
