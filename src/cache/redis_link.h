// One connection to a Redis server, made anew when it breaks. The library underneath appears only in
// redis_link.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct RedisAddress {
  std::string host = "127.0.0.1";
  uint16_t port = 6379;
  std::string user;      // empty: the default one
  std::string password;  // empty: none
  int64_t database = 0;
};

// "redis://[[user]:password@]host[:port][/database]", with %XX escapes in user and password. Encrypted
// connections (rediss://) are unsupported here and said to be so.
Result<RedisAddress> parse_redis_url(std::string_view url);
bool is_redis_url(std::string_view text);

// What Redis answers, as a tree. Errors it answers with become Errors instead.
struct RedisReply {
  enum class Kind { nothing, integer, text, list };
  Kind kind = Kind::nothing;
  int64_t integer = 0;
  std::string text;  // any bytes
  std::vector<RedisReply> list;
};

// Used from one thread at a time.
class RedisLink {
 public:
  // Connects at the first call, not here.
  explicit RedisLink(RedisAddress address,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(2'000));
  ~RedisLink();
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  // One command, its words of any bytes. A lost connection is an unavailable Error that names host and port;
  // so is every call of the next three seconds, then the connection is tried again: callers must not wait
  // each time.
  Result<RedisReply> call(const std::vector<std::string_view>& words);
  // All or none: between MULTI and EXEC. The replies of the commands, in order; an Error when one of them
  // failed.
  Result<std::vector<RedisReply>> transact(const std::vector<std::vector<std::string_view>>& commands);

 private:
  struct Connection;

  Status connect();
  Result<RedisReply> exchange(const std::vector<std::string_view>& words);
  Error lost(std::string_view reason);

  const RedisAddress address_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<Connection> connection_;
  std::chrono::steady_clock::time_point next_attempt_{};
};

}  // namespace fulmar
