// What HAProxy must be told so that its servers become those of a directory. Pure functions over text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

struct WantedServer {
  std::string name;     // letters, digits, '-', '_', '.'
  std::string address;  // numeric
  uint16_t port = 0;
  bool draining = false;
};

struct KnownServer {
  std::string name;
  std::string address;
  uint16_t port = 0;
  bool draining = false;
  bool in_maintenance = false;
};

// Parses an answer to "show servers state <backend>". Returns only servers that we have added, whose names
// begin with kOurServers, without that prefix.
std::vector<KnownServer> read_servers(std::string_view answer);
inline constexpr std::string_view kOurServers = "fulmar-";

// Adds the known servers that are missing from the directory to `wanted`: after the directory was away,
// records have expired although their workers live and will renew them.
void keep_missing(std::vector<WantedServer>& wanted, const std::vector<KnownServer>& known);

// Returns runtime commands, to be sent in order. A server that is no longer wanted is put into maintenance
// first, and deleted once HAProxy reports that: its last streams end meanwhile. Wanted servers whose name or
// address has characters with a meaning in commands are left out.
std::vector<std::string> haproxy_commands(std::string_view backend, const std::vector<WantedServer>& wanted,
                                          const std::vector<KnownServer>& known);

}  // namespace fulmar
