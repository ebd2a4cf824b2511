// Reading addresses, networks and X-Forwarded-For.
#include "net/client_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "net/secret.h"
#include "net/worker_proof.h"

namespace fulmar {
namespace {

constexpr std::array<uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr int kMappedBits = 96;
constexpr int kSubscriberBits = 64;  // of IPv6
// A longer chain of proxies counts as no client's; the rest of the field is not read.
constexpr size_t kMostHops = 32;

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Returns the address in a text of the forms that read_address() takes.
std::string_view address_part(std::string_view text) {
  const bool bare_v6 = !text.starts_with('[') && std::count(text.begin(), text.end(), ':') > 1;
  if (bare_v6) return text;
  const std::string_view host = without_port(text);
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

std::string text_of(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.is_v4()) {
    inet_ntop(AF_INET, address.bytes.data() + kMappedPrefix.size(), text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, address.bytes.data(), text.data(), text.size());
  }
  return text.data();
}

std::string client_text(IpAddress address) {
  if (address.is_v4() || address.is_loopback()) return text_of(address);
  std::fill(address.bytes.begin() + kSubscriberBits / 8, address.bytes.end(), uint8_t{0});
  return fmt::format("{}/{}", text_of(address), kSubscriberBits);
}

bool is_trusted(const IpAddress& address, const std::vector<Network>& trusted) {
  return std::any_of(trusted.begin(), trusted.end(),
                     [&](const Network& network) { return network.holds(address); });
}

// Returns all of X-Forwarded-For, the last hop first.
std::vector<std::string_view> hops_backwards(const Headers& headers) {
  std::vector<std::string_view> hops;
  for (const auto& [name, value] : headers) {
    if (!equals_ignoring_case(name, "X-Forwarded-For")) continue;
    std::vector<std::string_view> here;
    for (std::string_view rest = value; here.size() < kMostHops;) {
      const size_t comma = rest.rfind(',');
      here.push_back(trim(comma == std::string_view::npos ? rest : rest.substr(comma + 1)));
      if (comma == std::string_view::npos) break;
      rest = rest.substr(0, comma);
    }
    hops.insert(hops.begin(), here.begin(), here.end());
    hops.resize(std::min(hops.size(), kMostHops));
  }
  return hops;
}

// Returns the client that the control plane which started this worker names; empty: none with a valid proof.
std::string proven_client(const Headers& headers, const ProxyRules& rules) {
  const std::string* proof = headers.find(kClientProofHeader);
  const std::string* client = headers.find("X-Forwarded-For");
  if (!proof || !client || rules.worker_token.empty()) return {};
  return same_secret(client_proof(rules.worker_token, *client), *proof) ? *client : std::string();
}

}  // namespace

bool IpAddress::is_v4() const {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), bytes.begin());
}

bool IpAddress::is_loopback() const {
  if (is_v4()) return bytes[kMappedPrefix.size()] == 127;
  return bytes.back() == 1 &&
         std::all_of(bytes.begin(), bytes.end() - 1, [](uint8_t byte) { return byte == 0; });
}

std::string_view without_port(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos) return {};
  const std::string_view host = text.substr(0, bracket == 0 ? text.find(':') : bracket + 1);
  const std::string_view rest = text.substr(host.size());
  const bool port = rest.empty() || (rest.front() == ':' &&
                                     rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
  return port ? host : std::string_view();
}

std::optional<IpAddress> read_address(std::string_view text) {
  const std::string host(address_part(text));
  IpAddress address;
  if (inet_pton(AF_INET6, host.c_str(), address.bytes.data()) == 1) return address;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), address.bytes.begin());
  if (inet_pton(AF_INET, host.c_str(), address.bytes.data() + kMappedPrefix.size()) == 1) return address;
  return std::nullopt;
}

bool Network::holds(const IpAddress& address) const {
  for (int bit = 0; bit < bits; bit += 8) {
    const auto mask = static_cast<uint8_t>(bits - bit >= 8 ? 0xFF : 0xFF << (8 - (bits - bit)));
    const auto byte = static_cast<size_t>(bit / 8);
    if ((address.bytes[byte] & mask) != (base.bytes[byte] & mask)) return false;
  }
  return true;
}

Result<Network> read_network(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string host(text.substr(0, slash));
  const auto address = read_address(host);
  const bool bare = address && host.find('[') == std::string::npos && (address_part(host) == host);
  const int most = address && address->is_v4() ? 128 - kMappedBits : 128;
  int bits = most;
  bool good = bare;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    good = good && error == std::errc{} && end == digits.data() + digits.size() && bits >= 0 && bits <= most;
  }
  if (!good) {
    return Error{ErrorKind::invalid,
                 fmt::format("'{}' is no network; wanted an address such as 10.0.0.1 or ADDRESS/BITS", text)};
  }
  return Network{*address, address->is_v4() ? bits + kMappedBits : bits};
}

Result<std::vector<Network>> read_networks(const std::vector<std::string>& texts) {
  std::vector<Network> networks;
  for (const std::string& text : texts) {
    FULMAR_ASSIGN(const Network network, read_network(text));
    networks.push_back(network);
  }
  return networks;
}

std::string client_behind(std::string_view peer, const Headers& headers, const ProxyRules& rules) {
  if (std::string client = proven_client(headers, rules); !client.empty()) return client;
  auto client = read_address(peer);
  if (!client) return {};
  if (!is_trusted(*client, rules.trusted)) return client_text(*client);
  for (const std::string_view hop : hops_backwards(headers)) {
    const auto address = read_address(hop);
    if (!address) break;  // nobody vouches for what comes before it
    client = address;
    if (!is_trusted(*client, rules.trusted)) break;
  }
  return client_text(*client);
}

std::string connection_share(std::string_view peer, std::string_view local, const ProxyRules& rules) {
  const auto from = read_address(peer);
  if (!from) return {};
  const auto to = read_address(local);
  const bool same_machine = from->is_loopback() || (to && from->bytes == to->bytes);
  const bool for_many = is_trusted(*from, rules.trusted) || (!rules.worker_token.empty() && same_machine);
  return for_many ? std::string(peer) : client_text(*from);
}

// Hashes a word before the client, so that no challenge (only hexadecimal digits) has the same proof.
std::string client_proof(std::string_view worker_token, std::string_view client) {
  return worker_proof(worker_token, fmt::format("client {}", client));
}

}  // namespace fulmar
