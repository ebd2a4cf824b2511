// One GET over HTTP or HTTPS to the outside world: redirects, the environment's proxies, the machine's
// certificates. Blocks; Beast and OpenSSL appear only in web_get.cpp. Not net's client: that one speaks plain
// HTTP to workers, many at once, on the server's event loop.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/http_message.h"
#include "net/url.h"

namespace fulmar {

struct WebGet {
  Url url;
  Headers headers;                          // Host and Connection belong to the client
  std::string token;                        // shown, as a bearer, to the origin of `url` alone; empty: none
  std::function<bool()> stopped = nullptr;  // asked several times a second; true ends it as unavailable
};

// What came, on the caller's thread. False breaks off: web_get then fails, and the caller knows why.
struct WebAnswer {
  std::function<bool(int status, const Headers& headers)> head;  // of the last answer, behind all redirects
  std::function<bool(std::string_view bytes)> data;
};

// Fine once an answer of any status has come whole. unavailable where it has not: no connection, a
// certificate that is not trusted, 30 seconds without a byte, too many redirects.
Status web_get(const WebGet& request, const WebAnswer& answer);

// The files of trusted certificates of common systems, in the order in which they are tried behind
// SSL_CERT_FILE and OpenSSL's own; the first that exists, or empty.
std::string known_certificates();

}  // namespace fulmar
