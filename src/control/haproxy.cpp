// Reading HAProxy's state and deciding what changes.
#include "control/haproxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

namespace fulmar {
namespace {

constexpr unsigned kForcedMaintenance = 0x01;
constexpr unsigned kForcedDrain = 0x08;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

unsigned number_of(std::string_view text) {
  unsigned number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Returns the id of a server, equal for equal names in every run and on every machine: HAProxy's consistent
// hashing uses it. Small ids are left to servers of the configuration file.
uint32_t id_of(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char byte : name) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619u;
  return 10'000 + hash % 2'000'000'000;
}

bool is_plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char byte) {
    return std::isalnum(byte) || byte == '-' || byte == '_' || byte == '.' || byte == ':';
  });
}

const WantedServer* find(const std::vector<WantedServer>& servers, std::string_view name) {
  const auto found =
      std::find_if(servers.begin(), servers.end(), [&](const auto& server) { return server.name == name; });
  return found == servers.end() ? nullptr : &*found;
}

}  // namespace

std::vector<KnownServer> read_servers(std::string_view answer) {
  std::vector<KnownServer> servers;
  std::map<std::string_view, size_t> columns;
  while (!answer.empty()) {
    const size_t end = std::min(answer.find('\n'), answer.size());
    const std::vector<std::string_view> words = words_of(answer.substr(0, end));
    answer.remove_prefix(std::min(end + 1, answer.size()));
    if (words.size() > 1 && words[0] == "#") {
      for (size_t i = 1; i < words.size(); ++i) columns[words[i]] = i - 1;
      continue;
    }
    const auto field = [&](std::string_view name) {
      const auto column = columns.find(name);
      return column != columns.end() && column->second < words.size() ? words[column->second]
                                                                      : std::string_view();
    };
    const std::string_view name = field("srv_name");
    if (!name.starts_with(kOurServers)) continue;
    const unsigned state = number_of(field("srv_admin_state"));
    servers.push_back({.name = std::string(name.substr(kOurServers.size())),
                       .address = std::string(field("srv_addr")),
                       .port = static_cast<uint16_t>(number_of(field("srv_port"))),
                       .draining = (state & kForcedDrain) != 0,
                       .in_maintenance = (state & kForcedMaintenance) != 0});
  }
  return servers;
}

void keep_missing(std::vector<WantedServer>& wanted, const std::vector<KnownServer>& known) {
  for (const KnownServer& server : known) {
    if (server.in_maintenance || find(wanted, server.name) != nullptr) continue;
    wanted.push_back({server.name, server.address, server.port, server.draining});
  }
}

std::vector<std::string> haproxy_commands(std::string_view backend, const std::vector<WantedServer>& wanted,
                                          const std::vector<KnownServer>& known) {
  std::vector<std::string> commands;
  const auto place = [&](std::string_view name) {
    return fmt::format("{}/{}{}", backend, kOurServers, name);
  };
  for (const KnownServer& server : known) {
    const WantedServer* want = find(wanted, server.name);
    const bool moved = want && (want->address != server.address || want->port != server.port);
    if (!want || moved) {
      commands.push_back(server.in_maintenance
                             ? fmt::format("del server {}", place(server.name))
                             : fmt::format("set server {} state maint", place(server.name)));
    } else if (server.in_maintenance || want->draining != server.draining) {
      commands.push_back(
          fmt::format("set server {} state {}", place(server.name), want->draining ? "drain" : "ready"));
    }
  }
  for (const WantedServer& server : wanted) {
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const KnownServer& other) { return other.name == server.name; });
    if (is_known || server.draining || !is_plain(server.name) || !is_plain(server.address)) continue;
    commands.push_back(fmt::format("add server {} {}:{} id {} check inter 1s fall 2 rise 1",
                                   place(server.name), server.address, server.port, id_of(server.name)));
    commands.push_back(fmt::format("enable health {}", place(server.name)));
    commands.push_back(fmt::format("enable server {}", place(server.name)));
  }
  return commands;
}

}  // namespace fulmar
