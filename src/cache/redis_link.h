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
#include "cache/redis_address.h"

namespace fulmar {

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

  // One command, its words of any bytes. Sent again, once, over a fresh connection when the old one turns out
  // to be closed: commands must bear that. A server that does not answer is an unavailable Error that names
  // host and port; so is every call of the next three seconds, unless try_at_once() ends the pause: callers
  // must not wait each time.
  Result<RedisReply> call(const std::vector<std::string_view>& words);
  // Each for itself, in one trip: the reply or the failure of every command, in order. An Error when the
  // connection was lost; which of them were carried out is not known then.
  Result<std::vector<Result<RedisReply>>> each(const std::vector<std::vector<std::string_view>>& commands);
  // All or none: between MULTI and EXEC. The replies of the commands, in order; an Error when one of them
  // failed.
  Result<std::vector<RedisReply>> transact(const std::vector<std::vector<std::string_view>>& commands);

  // Ends the pause after a server that did not answer: the next call tries it.
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
