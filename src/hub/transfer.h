// HTTP from a hub, by libcurl, which appears only in transfer.cpp. Redirects are followed; the token goes to
// the hub's own host and to nobody it redirects to. Not net's client: proxies, redirects and trust of the
// outside world are libcurl's business; that one speaks plain HTTP to workers, on the server's event loop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"

namespace fulmar {

struct HubAccess {
  std::string endpoint;  // "https://host", without a slash at the end
  std::string token;     // empty: none
};

struct Page {
  std::string text;
  std::string link;  // its Link header (RFC 8288); empty: none
};

// A 200 answer. not_found for 404, invalid for a missing or insufficient token, else unavailable.
Result<Page> fetch_page(const HubAccess& hub, const std::string& url);

// How one attempt at a file ended.
struct Attempt {
  enum class End : uint8_t { complete, broken_off, refused };
  End end = End::complete;
  Error error;  // unless complete; broken_off: another attempt may go on from there
};

// Fetches `url` into `part`, from byte `have` on where the server can do that, else from the beginning.
// `size`: bytes of the whole file, -1 when unknown; more is refused, less is broken off. `progress` is told
// the bytes in `part`.
Attempt fetch_part(const HubAccess& hub, const std::string& url, const std::filesystem::path& part,
                   int64_t have, int64_t size, const std::function<void(int64_t bytes)>& progress);

}  // namespace fulmar
