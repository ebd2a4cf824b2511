// Fetches texts and files from a hub: statuses, ranges, and a token that is sent to the hub's own host but
// not to hosts it redirects to. The connection itself is in web_get.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"

namespace fulmar {

struct HubAccess {
  std::string endpoint;                     // "https://host", without a slash at the end
  std::string token;                        // empty: none
  std::function<bool()> stopped = nullptr;  // asked several times a second; true calls everything off
};

struct Page {
  std::string text;
  std::string link;  // its Link header (RFC 8288); empty: none
};

// Fetches an answer with status 200. Errors: not_found (404), invalid (missing or weak token), else
// unavailable.
Result<Page> fetch_page(const HubAccess& hub, const std::string& url);

// How one attempt to fetch a file ended.
struct Attempt {
  enum class End : uint8_t { complete, broken_off, refused };
  End end = End::complete;
  Error error;  // unless complete; broken_off: another attempt may go on from there
};

// The bytes of a file that is fetched.
struct FileBytes {
  int64_t have = 0;   // that are here already
  int64_t size = -1;  // of the whole file, -1 if unknown; more is refused, less is broken_off
  int64_t most = 0;   // more is refused whatever the size
};

// Fetches `url` into `part`, from byte `have` on if the server can do that, else from the beginning. Refuses
// bytes that would leave less than kDiskReserve free. `progress` gets the bytes in `part`; false cancels
// (refused, unavailable).
Attempt fetch_part(const HubAccess& hub, const std::string& url, const std::filesystem::path& part,
                   const FileBytes& bytes, const std::function<bool(int64_t bytes)>& progress);

// Bytes that a pull leaves free on its disk for other writers, mainly sessions.
inline constexpr int64_t kDiskReserve = int64_t{1} << 30;
// Returns the free bytes of the folder's disk beyond the reserve, at least 0.
int64_t bytes_to_spare(const std::filesystem::path& folder);

}  // namespace fulmar
