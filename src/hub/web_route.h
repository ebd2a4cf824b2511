// Where a request goes: the target of a redirect, and the proxy in between. Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/url.h"

namespace fulmar {

// Resolves a Location header against the URL that sent it (RFC 3986, section 5.2, without removal of dots).
// Error corrupt: it leads from https to http.
Result<Url> follow_location(const Url& from, std::string_view location);

// Returns whether scheme, host and port are equal: only then may a token be shown.
bool same_origin(const Url& a, const Url& b);

// Returns the value like `std::getenv`, as a string.
using Environment = std::function<std::string(const char* name)>;

struct Proxy {
  std::string host;
  uint16_t port = 0;
  std::string credentials;  // "user:password"; empty: none
};

// Returns the proxy from https_proxy or http_proxy, else all_proxy, unless no_proxy lists the host or a
// domain around it ("*": every host). Both cases of a name count, except HTTP_PROXY, into which web servers
// put a client's header. Nothing: connect directly. Error invalid: a proxy that does not speak HTTP.
Result<std::optional<Proxy>> proxy_for(const Url& url, const Environment& environment);

// Returns "host[:port]" for the Host header; leaves out the scheme's usual port, as signatures of storage
// services require.
std::string host_field(const Url& url);

// Returns "http[s]://host[:port]/..." as a proxy expects it.
std::string absolute_form(const Url& url);

}  // namespace fulmar
