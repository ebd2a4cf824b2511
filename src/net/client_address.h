// Which client a request is from, as work and bytes are shared out among clients: its address, and behind
// proxies what those say of it. Pure functions over plain data.
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

// The field, beside X-Forwarded-For, in which a control plane shows its worker that the address there is its
// own word.
inline constexpr std::string_view kClientProofHeader = "Fulmar-Client-Proof";

// A numeric address; IPv4 ones as IPv6 has them (::ffff:a.b.c.d).
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  bool is_v4() const;
  bool is_loopback() const;
};

// "10.0.0.1", "::1", "[::1]", each with or without ":port" ("[::1]:80"; a bare IPv6 address has none).
// Nothing for what is none.
std::optional<IpAddress> read_address(std::string_view text);

// Addresses whose first `bits` are those of `base`.
struct Network {
  IpAddress base;
  int bits = 128;
  bool holds(const IpAddress& address) const;
};

// "10.0.0.0/8", "fd00::/8", "127.0.0.1".
Result<Network> read_network(std::string_view text);
Result<std::vector<Network>> read_networks(const std::vector<std::string>& texts);

// Whose word on a client's address is taken.
struct ProxyRules {
  std::vector<Network> trusted;  // proxies that append to X-Forwarded-For
  std::string worker_token;      // of the control plane that started this worker; empty: none has
};

// The client behind `peer` ("127.0.0.1:51234"): the peer itself or, where that is trusted, the last address
// of X-Forwarded-For that is not; the first one where all are. An IPv4 address, or of an IPv6 one the network
// of 64 bits that one subscriber has whole ("2001:db8:1:2::/64"). Empty where the peer has no numeric
// address.
std::string client_behind(std::string_view peer, const Headers& headers, const ProxyRules& rules);

// What a control plane sends beside the client's address, so that its worker believes it. Empty without a
// token.
std::string client_proof(std::string_view worker_token, std::string_view client);

}  // namespace fulmar
