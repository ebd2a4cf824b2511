// Parses request targets and http URLs. Pure functions over text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/http_message.h"

namespace fulmar {

// Undoes %XX escapes, and '+' for a space if asked. Refuses broken escapes, NUL bytes and invalid UTF-8.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// Escapes everything but letters, digits and "-._~".
std::string percent_encode(std::string_view text);

// Parses "a=1&b=x%20y" to pairs; a part without '=' has an empty value.
Result<Query> parse_query(std::string_view text);

struct Target {
  std::string path;  // decoded; starts with '/', without trailing slashes but escaped ones; "*" for OPTIONS *
  Query query;
};

// Parses the target of a request line: "/path?query", "http://host/path?query" or "*".
Result<Target> parse_target(std::string_view target);

// Returns the path of a target as it was sent, with its escapes; of one that parse_target refuses, too.
std::string_view raw_path(std::string_view target);

struct Url {
  std::string host;  // without brackets
  uint16_t port = 80;
  std::string target;   // path and query as written, "/" when absent
  bool secure = false;  // https
};

// Parses "http://host[:port][/path][?query][#fragment]"; refuses other schemes and user names.
Result<Url> parse_url(std::string_view url);
// Parses likewise, and also "https://...", whose port is 443 unless it gives another.
Result<Url> parse_web_url(std::string_view url);

// Returns "host:port", with brackets around an IPv6 address.
std::string host_and_port(std::string_view host, uint16_t port);

}  // namespace fulmar
