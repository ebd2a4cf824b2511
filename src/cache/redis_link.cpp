// The only includer of hiredis.
#include "cache/redis_link.h"

#include <fmt/core.h>
#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace fulmar {
namespace {

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};

timeval timeval_of(std::chrono::milliseconds time) {
  return {.tv_sec = time.count() / 1000, .tv_usec = (time.count() % 1000) * 1000};
}

Result<RedisReply> convert(const redisReply& reply) {
  RedisReply converted;
  switch (reply.type) {
    case REDIS_REPLY_ERROR:
      return Error{ErrorKind::io, "Redis: " + std::string(reply.str, reply.len)};
    case REDIS_REPLY_INTEGER:
      converted.kind = RedisReply::Kind::integer;
      converted.integer = reply.integer;
      return converted;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      converted.kind = RedisReply::Kind::text;
      converted.text.assign(reply.str, reply.len);
      return converted;
    case REDIS_REPLY_ARRAY:
      converted.kind = RedisReply::Kind::list;
      for (size_t i = 0; i < reply.elements; ++i) {
        FULMAR_ASSIGN(RedisReply element, convert(*reply.element[i]));
        converted.list.push_back(std::move(element));
      }
      return converted;
    default:
      return converted;
  }
}

template <class Number>
std::optional<Number> whole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      plain.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

constexpr std::string_view kScheme = "redis://";
constexpr std::chrono::seconds kPauseAfterLoss{3};
constexpr std::chrono::milliseconds kConnectPatience{500};

}  // namespace

bool is_redis_url(std::string_view text) {
  return text.starts_with(kScheme) || text.starts_with("rediss://");
}

Result<RedisAddress> parse_redis_url(std::string_view url) {
  if (url.starts_with("rediss://")) {
    return Error{ErrorKind::unsupported,
                 "rediss:// is not built in; let a TLS tunnel on this machine reach the server"};
  }
  if (!url.starts_with(kScheme)) {
    return Error{ErrorKind::invalid, fmt::format("'{}' does not begin with {}", url, kScheme)};
  }
  // The text itself stays out of these messages: it may hold a password.
  const auto bad = [](const char* part) {
    return Error{
        ErrorKind::invalid,
        fmt::format("Redis URL: bad {}, wanted redis://[[user]:password@]host[:port][/database]", part)};
  };
  RedisAddress address;
  std::string_view rest = url.substr(kScheme.size());
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = rest.substr(0, at);
    const size_t colon = login.find(':');
    if (colon == std::string_view::npos) return bad("login");
    address.user = unescape(login.substr(0, colon));
    address.password = unescape(login.substr(colon + 1));
    rest.remove_prefix(at + 1);
  }
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const auto database = whole<int64_t>(rest.substr(slash + 1));
    if (slash + 1 < rest.size() && (!database || *database < 0)) return bad("database");
    address.database = database.value_or(0);
    rest = rest.substr(0, slash);
  }
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    const auto port = whole<uint16_t>(rest.substr(colon + 1));
    if (!port || *port == 0) return bad("port");
    address.port = *port;
    rest = rest.substr(0, colon);
  }
  if (rest.empty()) return bad("host");
  address.host = std::string(rest);
  return address;
}

struct RedisLink::Connection {
  std::unique_ptr<redisContext, FreeContext> context;
};

RedisLink::RedisLink(RedisAddress address, std::chrono::milliseconds patience)
    : address_(std::move(address)), patience_(patience) {}
RedisLink::~RedisLink() = default;

Error RedisLink::lost(std::string_view reason) {
  // The reason may lie inside the connection that goes.
  const Error error{ErrorKind::unavailable,
                    fmt::format("Redis at {}:{}: {}", address_.host, address_.port, reason)};
  connection_.reset();
  next_attempt_ = std::chrono::steady_clock::now() + kPauseAfterLoss;
  return error;
}

Status RedisLink::connect() {
  if (connection_) return {};
  if (std::chrono::steady_clock::now() < next_attempt_) {
    return Error{ErrorKind::unavailable,
                 fmt::format("Redis at {}:{} does not answer", address_.host, address_.port)};
  }
  auto fresh = std::make_unique<Connection>();
  fresh->context.reset(redisConnectWithTimeout(address_.host.c_str(), address_.port,
                                               timeval_of(std::min(patience_, kConnectPatience))));
  if (!fresh->context) return lost("no memory for a connection");
  if (fresh->context->err != 0) return lost(fresh->context->errstr);
  redisSetTimeout(fresh->context.get(), timeval_of(patience_));
  connection_ = std::move(fresh);
  const auto greet = [&](const std::vector<std::string_view>& words) -> Status {
    auto answered = exchange(words);
    if (!answered.ok()) return lost(answered.error().text);
    return {};
  };
  if (!address_.password.empty() && !address_.user.empty()) {
    FULMAR_TRY(greet({"AUTH", address_.user, address_.password}));
  } else if (!address_.password.empty()) {
    FULMAR_TRY(greet({"AUTH", address_.password}));
  }
  if (address_.database != 0) {
    const std::string number = std::to_string(address_.database);
    FULMAR_TRY(greet({"SELECT", number}));
  }
  return {};
}

Result<RedisReply> RedisLink::exchange(const std::vector<std::string_view>& words) {
  std::vector<const char*> pointers;
  std::vector<size_t> lengths;
  for (const std::string_view word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  redisContext* context = connection_->context.get();
  const std::unique_ptr<redisReply, FreeReply> reply(static_cast<redisReply*>(
      redisCommandArgv(context, static_cast<int>(words.size()), pointers.data(), lengths.data())));
  if (!reply) return lost(context->errstr);
  return convert(*reply);
}

Result<RedisReply> RedisLink::call(const std::vector<std::string_view>& words) {
  FULMAR_TRY(connect());
  return exchange(words);
}

Result<std::vector<RedisReply>> RedisLink::transact(
    const std::vector<std::vector<std::string_view>>& commands) {
  FULMAR_TRY(connect());
  FULMAR_TRY(exchange({"MULTI"}));
  for (const auto& command : commands) {
    if (auto queued = exchange(command); !queued.ok()) {
      if (connection_) (void)exchange({"DISCARD"});
      return queued.error();
    }
  }
  FULMAR_ASSIGN(RedisReply done, exchange({"EXEC"}));
  return std::move(done.list);
}

}  // namespace fulmar
