// Finds the client that a request is from, for sharing work and bytes among clients: its address or, behind
// trusted proxies, the address that these report. Pure functions over plain data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_message.h"

namespace fulmar {

// The field by which a control plane proves to its worker that X-Forwarded-For is its own
// statement.
inline constexpr std::string_view kClientProofHeader = "Fulmar-Client-Proof";

// A numeric address; IPv4 ones in their IPv6 form (::ffff:a.b.c.d).
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  bool is_v4() const;
  bool is_loopback() const;
};

// Returns the host of "name", "name:80" or "[::1]:80", with its brackets; empty where something else than a
// port follows it.
std::string_view without_port(std::string_view text);

// Parses "10.0.0.1", "::1" or "[::1]", each with or without ":port" ("[::1]:80"; a bare IPv6 address has
// none). Nothing for other texts.
std::optional<IpAddress> read_address(std::string_view text);

// The addresses whose first `bits` bits equal those of `base`.
struct Network {
  IpAddress base;
  int bits = 128;
  bool holds(const IpAddress& address) const;
};

// Parses "10.0.0.0/8", "fd00::/8" or "127.0.0.1".
Result<Network> read_network(std::string_view text);
Result<std::vector<Network>> read_networks(const std::vector<std::string>& texts);

// Who is believed about a client's address.
struct ProxyRules {
  std::vector<Network> trusted;  // proxies that append to X-Forwarded-For
  std::string worker_token;      // of the control plane that started this worker; empty: none has
};

// Returns the client of a connection from `peer` ("127.0.0.1:51234"): the peer itself or, if that is trusted,
// the last address of X-Forwarded-For that is not trusted; the first one if all are. For IPv4 the address,
// for IPv6 its network of 64 bits, since one subscriber has all of it ("2001:db8:1:2::/64"). Empty if the
// peer has no numeric address.
std::string client_behind(std::string_view peer, const Headers& headers, const ProxyRules& rules);

// Returns the name under which a connection from `peer` to `local` counts among those of its client. One of a
// trusted proxy, and one of the control plane on the machine of its worker, stands for itself, since many
// clients come through them.
std::string connection_share(std::string_view peer, std::string_view local, const ProxyRules& rules);

// Returns the proof that a control plane sends with the client's address, so that its worker believes it.
// Empty without a token.
std::string client_proof(std::string_view worker_token, std::string_view client);

}  // namespace fulmar
