// The only includer of hiredis, of which the protocol is used: writing commands, reading answers.
#include "cache/redis_link.h"

#include <fmt/core.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <utility>

namespace fulmar {
namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

// hiredis' reader with a bound on what one answer may make it hold; it cannot be made without one.
class ReplyReader {
 public:
  explicit ReplyReader(size_t most_bytes) : most_(most_bytes) {
    usual_ = *reader_->fn;
    functions_ = usual_;
    functions_.createArray = create_list;
    reader_->fn = &functions_;
  }

  // Returns the next reply; null: more bytes are needed.
  Result<std::unique_ptr<redisReply, FreeReply>> next() {
    void* answer = nullptr;
    if (redisReaderGetReply(reader_.get(), &answer) != REDIS_OK) {
      return Error{ErrorKind::unavailable, fmt::format("not Redis: {}", reader_->errstr)};
    }
    if (answer != nullptr) fed_ = 0;
    return std::unique_ptr<redisReply, FreeReply>(static_cast<redisReply*>(answer));
  }
  Status feed(std::string_view bytes) {
    fed_ += bytes.size();
    if (fed_ > most_) {
      return Error{ErrorKind::unavailable, fmt::format("an answer of more than {} bytes", most_)};
    }
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
    return {};
  }

 private:
  // Room for a list is made at once, before any of it has come.
  static constexpr uint64_t kMostElements = 1 << 20;

  // Refuses a large list by null, as for lack of memory. The library's version gives the type of `elements`.
  template <class Number>
  static void* create_list(const redisReadTask* task, Number elements) {
    return static_cast<uint64_t>(elements) > kMostElements ? nullptr : usual_.createArray(task, elements);
  }

  static inline redisReplyObjectFunctions usual_{};  // the same for every reader
  const std::unique_ptr<redisReader, FreeReader> reader_{redisReaderCreate()};
  redisReplyObjectFunctions functions_{};
  const size_t most_;
  size_t fed_ = 0;  // since the last answer was whole
};
struct FreeCommand {
  void operator()(char* command) const { redisFreeCommand(command); }
};

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

constexpr std::chrono::seconds kPauseAfterLoss{3};
// A list of states of the largest models; Redis itself holds values of 512 MiB at most.
constexpr size_t kMostReply = size_t{1} << 30;
constexpr std::chrono::milliseconds kConnectPatience{500};

}  // namespace

struct RedisLink::Connection {
  std::unique_ptr<ByteStream> stream;
  ReplyReader reader{kMostReply};
  bool used = false;  // has answered before: if it is closed now, a fresh one may do
};

RedisLink::RedisLink(RedisAddress address, std::chrono::milliseconds patience)
    : address_(std::move(address)), patience_(patience) {}
RedisLink::~RedisLink() = default;

// Drops the connection. A closed one may be opened again at once; a server that does not answer gets a pause.
Error RedisLink::lost(const Error& reason) {
  connection_.reset();
  if (reason.kind != ErrorKind::io) next_attempt_ = std::chrono::steady_clock::now() + kPauseAfterLoss;
  return {ErrorKind::unavailable,
          fmt::format("Redis at {}:{}: {}", address_.host, address_.port, reason.text)};
}

Status RedisLink::connect() {
  if (connection_) return {};
  if (std::chrono::steady_clock::now() < next_attempt_) {
    return Error{ErrorKind::unavailable,
                 fmt::format("Redis at {}:{} does not answer", address_.host, address_.port)};
  }
  auto stream = ByteStream::connect({.host = address_.host,
                                     .port = address_.port,
                                     .tls = address_.encrypted ? &address_.tls : nullptr,
                                     .connect_patience = std::min(patience_, kConnectPatience),
                                     .patience = patience_});
  if (!stream.ok()) return lost(stream.error());
  connection_ = std::make_unique<Connection>();
  connection_->stream = std::move(*stream);
  if (const Status greeted = greet(); !greeted.ok()) {
    // One that refuses the password is as good as away.
    return connection_ ? lost({ErrorKind::unavailable, greeted.error().text}) : greeted.error();
  }
  return {};
}

Status RedisLink::greet() {
  if (!address_.password.empty() && !address_.user.empty()) {
    FULMAR_TRY(exchange({"AUTH", address_.user, address_.password}));
  } else if (!address_.password.empty()) {
    FULMAR_TRY(exchange({"AUTH", address_.password}));
  }
  if (address_.database != 0) {
    const std::string number = std::to_string(address_.database);
    FULMAR_TRY(exchange({"SELECT", number}));
  }
  return {};
}

Status RedisLink::send(const std::vector<std::string_view>& words) {
  std::vector<const char*> pointers;
  std::vector<size_t> lengths;
  for (const std::string_view word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  char* text = nullptr;
  const auto size =
      redisFormatCommandArgv(&text, static_cast<int>(words.size()), pointers.data(), lengths.data());
  const std::unique_ptr<char, FreeCommand> command(text);
  if (size < 0) return Error{ErrorKind::resource, "no memory for a Redis command"};
  if (const Status sent = connection_->stream->write({text, static_cast<size_t>(size)}); !sent.ok()) {
    return lost(sent.error());
  }
  return {};
}

Result<RedisReply> RedisLink::receive() {
  std::array<char, 65536> bytes;
  for (;;) {
    auto reply = connection_->reader.next();
    if (!reply.ok()) return lost(reply.error());
    if (*reply) {
      connection_->used = true;
      return convert(**reply);
    }
    const auto got = connection_->stream->read(bytes);
    if (!got.ok()) return lost(got.error());
    if (const Status fed = connection_->reader.feed({bytes.data(), *got}); !fed.ok())
      return lost(fed.error());
  }
}

Result<RedisReply> RedisLink::exchange(const std::vector<std::string_view>& words) {
  FULMAR_TRY(send(words));
  return receive();
}

// Calls `talk`, and again over a new connection if an old one turns out to be closed.
template <class Talk>
auto RedisLink::talk(Talk talk) -> decltype(talk()) {
  FULMAR_TRY(connect());
  const bool old = connection_->used;
  auto said = talk();
  const bool closed = !connection_ && std::chrono::steady_clock::now() >= next_attempt_;
  if (said.ok() || !old || !closed) return said;
  FULMAR_TRY(connect());
  return talk();
}

Result<RedisReply> RedisLink::call(const std::vector<std::string_view>& words) {
  return talk([&] { return exchange(words); });
}

// Sends all commands before it reads the first answer: one round trip, however many there are.
Result<std::vector<Result<RedisReply>>> RedisLink::each(
    const std::vector<std::vector<std::string_view>>& commands) {
  return talk([&]() -> Result<std::vector<Result<RedisReply>>> {
    for (const auto& command : commands) FULMAR_TRY(send(command));
    std::vector<Result<RedisReply>> replies;
    for (size_t i = 0; i < commands.size(); ++i) {
      replies.push_back(receive());
      if (!connection_) return replies.back().error();
    }
    return replies;
  });
}

Result<std::vector<RedisReply>> RedisLink::transact(
    const std::vector<std::vector<std::string_view>>& commands) {
  return talk([&]() -> Result<std::vector<RedisReply>> {
    FULMAR_TRY(send({"MULTI"}));
    for (const auto& command : commands) FULMAR_TRY(send(command));
    FULMAR_TRY(send({"EXEC"}));
    for (size_t i = 0; i <= commands.size(); ++i) {
      const auto queued = receive();
      if (!connection_) return queued.error();  // otherwise EXEC tells what was wrong
    }
    FULMAR_ASSIGN(RedisReply done, receive());
    return std::move(done.list);
  });
}

}  // namespace fulmar
