// Texts and files from a hub: statuses, ranges, and a token that goes to the hub's own host and to nobody it
// redirects to. The connection itself is web_get's business.
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

// A 200 answer. not_found for 404, invalid for a missing or insufficient token, else unavailable.
Result<Page> fetch_page(const HubAccess& hub, const std::string& url);

// How one attempt at a file ended.
struct Attempt {
  enum class End : uint8_t { complete, broken_off, refused };
  End end = End::complete;
  Error error;  // unless complete; broken_off: another attempt may go on from there
};

// Fetches `url` into `part`, from byte `have` on where the server can do that, else from the beginning.
// `size`: bytes of the whole file, -1 when unknown; more is refused, less is broken off. More than `most`
// bytes are refused whatever is known, and so are those that leave less than kDiskReserve free. `progress` is
// told the bytes in `part`; false calls the transfer off (refused, unavailable).
Attempt fetch_part(const HubAccess& hub, const std::string& url, const std::filesystem::path& part,
                   int64_t have, int64_t size, int64_t most,
                   const std::function<bool(int64_t bytes)>& progress);

// What a pull leaves free on its disk, for whatever else writes there: sessions above all.
inline constexpr int64_t kDiskReserve = int64_t{1} << 30;
// Free bytes of the folder's disk beside the reserve, not below 0.
int64_t bytes_to_spare(const std::filesystem::path& folder);

}  // namespace fulmar
