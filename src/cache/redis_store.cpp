// The commands behind SessionStore.
#include "cache/redis_store.h"

#include <fmt/core.h>

#include <charconv>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "base/unix_time.h"

namespace fulmar {
namespace {

// KEYS: the session, the list. ARGV: turn, tokens, updated, state, time to live in ms, id, writer. The same
// writer's same turn is one whose answer was lost on the way: it is there.
constexpr std::string_view kStoreScript = R"(
local known = redis.call('HMGET', KEYS[1], 'turn', 'writer')
if known[1] == ARGV[1] and known[2] == ARGV[7] then return 1 end
if known[1] and tonumber(known[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'turn', ARGV[1], 'tokens', ARGV[2], 'updated', ARGV[3], 'state', ARGV[4],
  'writer', ARGV[7])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[5]) else redis.call('PERSIST', KEYS[1]) end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[6])
return 1)";

// KEYS: the list. ARGV: the beginning of the sessions' keys. Lists what still lives and forgets what has
// expired.
constexpr std::string_view kListScript = R"(
local rows = {}
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  local row = redis.call('HMGET', ARGV[1] .. id, 'updated', 'tokens', 'turn')
  if row[1] then
    rows[#rows + 1] = {id, row[1], row[2], row[3]}
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
return rows)";

// The braces keep a model's keys on one server of a cluster.
std::string session_prefix(const std::string& fingerprint) { return "fulmar:{" + fingerprint + "}:session:"; }
std::string list_key(const std::string& fingerprint) { return "fulmar:{" + fingerprint + "}:sessions"; }

template <class Number>
Number number_of(const std::string& text) {
  Number number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The words of one write; the command refers to them.
struct StoreWords {
  std::string session, list, turn, tokens, updated, state, time_to_live, id, writer;

  std::vector<std::string_view> command() const {
    return {"EVAL", kStoreScript, "2", session, list, turn, tokens, updated, state, time_to_live, id, writer};
  }
};

// Tells this process from all others that write to the same server.
std::string fresh_writer() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

class RedisStore final : public SessionStore {
 public:
  explicit RedisStore(const RedisStoreOptions& options)
      : link_(options.address), time_to_live_(options.time_to_live) {}

  Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) override {
    const std::string key = session_prefix(fingerprint) + id;
    FULMAR_ASSIGN(const RedisReply reply, link_.call({"HGET", key, "state"}));
    if (reply.kind != RedisReply::Kind::text) return std::optional<StateBlob>();
    FULMAR_ASSIGN(StateBlob blob, decode_blob(std::as_bytes(std::span(reply.text))));
    if (blob.fingerprint != fingerprint) {
      return Error{ErrorKind::corrupt, fmt::format("session '{}': its state belongs to another model", id)};
    }
    return std::optional<StateBlob>(std::move(blob));
  }

  bool shared() const override { return true; }

  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    const std::string key = session_prefix(fingerprint) + id;
    FULMAR_ASSIGN(const RedisReply reply, link_.call({"HGET", key, "turn"}));
    return reply.kind == RedisReply::Kind::text ? number_of<int64_t>(reply.text) : int64_t{0};
  }

  Result<std::vector<std::string>> store(const std::vector<SessionWrite>& writes) override {
    std::vector<std::string> refused;
    if (writes.empty()) return refused;
    std::vector<StoreWords> words;
    for (const SessionWrite& write : writes) words.push_back(words_of(write));
    std::vector<std::vector<std::string_view>> commands;
    for (const StoreWords& one : words) commands.push_back(one.command());
    FULMAR_ASSIGN(const auto replies, link_.transact(commands));
    for (size_t i = 0; i < replies.size() && i < writes.size(); ++i) {
      if (replies[i].integer == 0) refused.push_back(writes[i].id);
    }
    return refused;
  }

  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    std::vector<std::string> ids{id};
    if (and_branches) {
      FULMAR_ASSIGN(const auto sessions, list(fingerprint));
      for (const StoredSession& session : sessions) {
        if (session.id.starts_with(id + ":")) ids.push_back(session.id);
      }
    }
    const std::string list = list_key(fingerprint);
    std::vector<std::string> keys;
    for (const std::string& one : ids) keys.push_back(session_prefix(fingerprint) + one);
    std::vector<std::vector<std::string_view>> commands;
    for (size_t i = 0; i < ids.size(); ++i) {
      commands.push_back({"DEL", keys[i]});
      commands.push_back({"ZREM", list, ids[i]});
    }
    FULMAR_ASSIGN(const auto replies, link_.transact(commands));
    int64_t erased = 0;
    for (size_t i = 0; i < replies.size(); i += 2) erased += replies[i].integer;
    return erased;
  }

  Result<std::vector<StoredSession>> list(const std::string& fingerprint) override {
    const std::string key = list_key(fingerprint), prefix = session_prefix(fingerprint);
    FULMAR_ASSIGN(const RedisReply reply, link_.call({"EVAL", kListScript, "1", key, prefix}));
    std::vector<StoredSession> sessions;
    for (const RedisReply& row : reply.list) {
      if (row.list.size() != 4) continue;
      sessions.push_back({row.list[0].text, number_of<double>(row.list[1].text),
                          number_of<int64_t>(row.list[2].text), number_of<int64_t>(row.list[3].text)});
    }
    return sessions;
  }

 private:
  StoreWords words_of(const SessionWrite& write) const {
    const std::vector<std::byte> bytes = encode_blob(*write.blob);
    return {.session = session_prefix(write.blob->fingerprint) + write.id,
            .list = list_key(write.blob->fingerprint),
            .turn = std::to_string(write.blob->turn),
            .tokens = std::to_string(write.blob->tokens),
            .updated = fmt::format("{:.6f}", unix_time()),
            .state = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            .time_to_live = std::to_string(time_to_live_.count()),
            .id = write.id,
            .writer = writer_};
  }

  RedisLink link_;
  const std::chrono::milliseconds time_to_live_;
  const std::string writer_ = fresh_writer();
};

}  // namespace

std::unique_ptr<SessionStore> redis_store(const RedisStoreOptions& options) {
  return std::make_unique<RedisStore>(options);
}

Status check_redis(const RedisAddress& address) {
  RedisLink link(address);
  FULMAR_TRY(link.call({"PING"}));
  return {};
}

}  // namespace fulmar
