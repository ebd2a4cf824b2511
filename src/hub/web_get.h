// One GET over HTTP or HTTPS to the internet, with redirects, the environment's proxies and the machine's
// certificates. Blocks. Beast and OpenSSL appear only in web_get.cpp. The client in net/ is for another use:
// many plain HTTP requests to workers at once, on the server's event loop.
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

// Gets the answer, on the caller's thread. Returning false stops the transfer: web_get then fails.
struct WebAnswer {
  std::function<bool(int status, const Headers& headers)> head;  // of the last answer, after all redirects
  std::function<bool(std::string_view bytes)> data;
};

// Succeeds once an answer of any status has arrived completely. Error unavailable: no connection, a
// certificate that is not trusted, 30 seconds without a byte, or too many redirects.
Status web_get(const WebGet& request, const WebAnswer& answer);

// Returns the first existing file of trusted certificates among those of common systems, or empty. It is
// tried after SSL_CERT_FILE and OpenSSL's own.
std::string known_certificates();

}  // namespace fulmar
