// One connection to a Redis server, renewed when it breaks. The library is used only in
// redis_link.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/redis_address.h"

namespace fulmar {

// An answer of Redis as a tree. Errors that it answers become Errors instead.
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
  // Stores the address; the first call connects.
  explicit RedisLink(RedisAddress address,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(2'000));
  ~RedisLink();
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;

  // Sends one command, whose words may hold any bytes. If an old connection turns out to be closed it is sent
  // again, once, over a new one, so commands must allow that. Error unavailable, with host and port: the
  // server does not answer; then also at once for the next three seconds, so that callers do not wait each
  // time, unless try_at_once() ends the pause.
  Result<RedisReply> call(const std::vector<std::string_view>& words);
  // Sends commands in one round trip; returns each one's reply or failure, in order. Error: the connection
  // was lost; it is unknown which of them were carried out.
  Result<std::vector<Result<RedisReply>>> each(const std::vector<std::vector<std::string_view>>& commands);
  // Sends commands as a transaction, between MULTI and EXEC. Returns their replies, in order; an Error when
  // one failed.
  Result<std::vector<RedisReply>> transact(const std::vector<std::vector<std::string_view>>& commands);

  // Ends the pause after a server that did not answer: the next call tries again.
  void try_at_once() { next_attempt_ = {}; }

 private:
  struct Connection;

  Status connect();
  Status greet();
  Status send(const std::vector<std::string_view>& words);
  Result<RedisReply> receive();
  Result<RedisReply> exchange(const std::vector<std::string_view>& words);
  template <class Talk>
  auto talk(Talk talk) -> decltype(talk());
  Error lost(const Error& reason);

  const RedisAddress address_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<Connection> connection_;
  std::chrono::steady_clock::time_point next_attempt_{};
};

}  // namespace fulmar
