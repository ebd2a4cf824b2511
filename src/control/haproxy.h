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

// The servers of an answer to "show servers state <backend>". Only those that we have added, whose names
// begin with kOurServers, are listed; the prefix is taken off.
std::vector<KnownServer> read_servers(std::string_view answer);
inline constexpr std::string_view kOurServers = "fulmar-";

// Lets servers that are missing from the directory stay as they are: after it was away, records have run out
// although their workers live and will be renewed.
void keep_missing(std::vector<WantedServer>& wanted, const std::vector<KnownServer>& known);

// Runtime commands, to be sent in order. A server that is to go is put into maintenance first and deleted
// once HAProxy knows it to be there: its last streams end in between. Wanted servers whose name or address
// holds signs that would mean something inside a command are left out.
std::vector<std::string> haproxy_commands(std::string_view backend, const std::vector<WantedServer>& wanted,
                                          const std::vector<KnownServer>& known);

}  // namespace fulmar
