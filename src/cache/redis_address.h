// The address of a Redis server and its credentials, from a URL. Connects to nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/byte_stream.h"

namespace fulmar {

struct RedisAddress {
  std::string host = "127.0.0.1";
  uint16_t port = 6379;
  std::string user;      // empty: the default one
  std::string password;  // empty: none
  int64_t database = 0;
  bool encrypted = false;
  TlsFiles tls;  // where encrypted
};

// Parses "redis://[[user]:password@]host[:port][/database]", with %XX escapes in user and password; "[...]"
// around an IPv6 host. "rediss://" is the same over TLS and takes "?cacert=FILE" (instead of the system's
// authorities) and "&cert=FILE&key=FILE" (our own certificate); the server's certificate must name the
// host.
Result<RedisAddress> parse_redis_url(std::string_view url);

// Parses an address as parse_redis_url() does and checks the files that it names (check_tls_files()), so that
// a wrong one fails here, not at the first connection.
Result<RedisAddress> usable_redis_address(std::string_view url);

}  // namespace fulmar
