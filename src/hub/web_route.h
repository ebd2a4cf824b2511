// Where a request goes: what a redirect means, and which proxy lies between. Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/url.h"

namespace fulmar {

// The address that a Location header means, seen from the one that answered (RFC 3986, section 5.2, without
// the removal of dots). From https to http: corrupt.
Result<Url> follow_location(const Url& from, std::string_view location);

// The same scheme, host and port: who may be shown a token.
bool same_origin(const Url& a, const Url& b);

// Like `std::getenv`, with a string.
using Environment = std::function<std::string(const char* name)>;

struct Proxy {
  std::string host;
  uint16_t port = 0;
  std::string credentials;  // "user:password"; empty: none
};

// By https_proxy or http_proxy, else all_proxy, unless no_proxy lists the host or a domain around it ("*":
// every host). Names count in both cases, but for HTTP_PROXY: web servers put a client's header there.
// Nothing: straight. invalid for a proxy that does not speak HTTP.
Result<std::optional<Proxy>> proxy_for(const Url& url, const Environment& environment);

// "host[:port]", as the Host header has it: signatures of storage services count on a usual port being left
// out.
std::string host_field(const Url& url);

// "http[s]://host[:port]/..." as a proxy takes it.
std::string absolute_form(const Url& url);

}  // namespace fulmar
