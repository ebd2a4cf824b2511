// SessionStore by commands of Redis.
#include "cache/redis_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "base/unix_time.h"
#include "cache/session_name.h"
#include "cache/split_writes.h"

namespace fulmar {
namespace {

// KEYS: the session, the list. ARGV: turn, tokens, updated, state, time to live in ms, id, writer, owner. The
// same writer's same turn is one whose answer was lost on the way: it is there.
constexpr std::string_view kStoreScript = R"(
local known = redis.call('HMGET', KEYS[1], 'turn', 'writer')
if known[1] == ARGV[1] and known[2] == ARGV[7] then return 1 end
if known[1] and tonumber(known[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'turn', ARGV[1], 'tokens', ARGV[2], 'updated', ARGV[3], 'state', ARGV[4],
  'writer', ARGV[7], 'owner', ARGV[8])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[5]) else redis.call('PERSIST', KEYS[1]) end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[6])
return 1)";

// KEYS: the list. ARGV: the beginning of the sessions' keys, the beginning of the ids wanted. Lists what
// still lives and forgets what has expired.
constexpr std::string_view kListScript = R"(
local rows = {}
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  if string.sub(id, 1, #ARGV[2]) == ARGV[2] then
    local row = redis.call('HMGET', ARGV[1] .. id, 'updated', 'tokens', 'turn')
    if row[1] then
      rows[#rows + 1] = {id, row[1], row[2], row[3]}
    else
      redis.call('ZREM', KEYS[1], id)
    end
  end
end
return rows)";

// KEYS: the list. ARGV: the beginning of the sessions' keys, the bytes that may stay, how many may go at
// once. While there is more, erases the oldest session of the owner that has most (fair_eviction.h), but for
// the last one of all, and returns rows as the list does. Of a session that was stored without its owner the
// name tells; 31 is kOwnerEnd.
constexpr std::string_view kSweepScript = R"(
local bytes, left, owners = 0, 0, {}
for place, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local size = redis.call('HSTRLEN', ARGV[1] .. id, 'state')
  if size > 0 then
    local name = redis.call('HGET', ARGV[1] .. id, 'owner')
      or string.sub(id, 1, (string.find(id, '\31', 1, true) or 1) - 1)
    local owner = owners[name] or {next = 1, sessions = {}}
    owners[name] = owner
    table.insert(owner.sessions, {id = id, size = size, place = place})
    bytes, left = bytes + size, left + 1
  end
end
local rows = {}
for i = 1, tonumber(ARGV[3]) do
  if bytes <= tonumber(ARGV[2]) or left <= 1 then break end
  local most, held, oldest
  for _, owner in pairs(owners) do
    local has, first = #owner.sessions - owner.next + 1, owner.sessions[owner.next]
    if has > 0 and (not most or has > held or (has == held and first.place < oldest.place)) then
      most, held, oldest = owner, has, first
    end
  end
  most.next, bytes, left = most.next + 1, bytes - oldest.size, left - 1
  local key = ARGV[1] .. oldest.id
  local row = redis.call('HMGET', key, 'updated', 'tokens', 'turn')
  redis.call('DEL', key)
  redis.call('ZREM', KEYS[1], oldest.id)
  rows[#rows + 1] = {oldest.id, row[1], row[2], row[3]}
end
return rows)";

// How keys and values are laid out. 1: as described in the header.
constexpr int64_t kSchema = 1;
constexpr std::string_view kSchemaKey = "fulmar:sessions";

// States that one trip takes along.
constexpr size_t kMostBytesOfATrip = size_t{64} << 20;
constexpr std::string_view kMostSwept = "64";

// Returns the beginning of a model's keys; the braces keep them on one server of a cluster.
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
  std::string session, list, turn, tokens, updated, state, time_to_live, id, writer, owner;

  std::vector<std::string_view> command() const {
    return {"EVAL",  kStoreScript, "2",          session, list,   turn, tokens,
            updated, state,        time_to_live, id,      writer, owner};
  }
};

// Refuses the layout of a newer version, and leaves a mark for older ones. A server that cannot be marked is
// used without one.
Status check_schema(RedisLink& link) {
  FULMAR_ASSIGN(const RedisReply found, link.call({"HGET", kSchemaKey, "schema"}));
  if (found.kind == RedisReply::Kind::text && number_of<int64_t>(found.text) > kSchema) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("sessions in Redis: schema {} found, at most {} wanted: a newer version has made "
                    "them",
                    found.text, kSchema)};
  }
  if (found.kind != RedisReply::Kind::text) {
    const std::string schema = std::to_string(kSchema);
    (void)link.call({"HSETNX", kSchemaKey, "schema", schema});
  }
  return {};
}

std::vector<StoredSession> sessions_of(const RedisReply& reply) {
  std::vector<StoredSession> sessions;
  for (const RedisReply& row : reply.list) {
    if (row.list.size() != 4) continue;
    sessions.push_back({row.list[0].text, number_of<double>(row.list[1].text),
                        number_of<int64_t>(row.list[2].text), number_of<int64_t>(row.list[3].text)});
  }
  return sessions;
}

// Tells this process from all others that write to the same server.
std::string fresh_writer() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

class RedisStore final : public SessionStore {
 public:
  explicit RedisStore(const RedisStoreOptions& options)
      : link_(options.address), time_to_live_(options.time_to_live), most_bytes_(options.most_bytes) {}

  Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) override {
    FULMAR_TRY(make_ready());
    const std::string key = session_prefix(fingerprint) + id;
    FULMAR_ASSIGN(const RedisReply reply, link_.call({"HGET", key, "state"}));
    if (reply.kind != RedisReply::Kind::text) return std::optional<StateBlob>();
    FULMAR_ASSIGN(StateBlob blob, decode_blob(std::as_bytes(std::span(reply.text))));
    if (blob.fingerprint != fingerprint) {
      return Error{ErrorKind::corrupt,
                   fmt::format("session '{}': its state belongs to another model", session_id_of(id))};
    }
    return std::optional<StateBlob>(std::move(blob));
  }

  bool shared() const override { return true; }

  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    FULMAR_TRY(make_ready());
    const std::string key = session_prefix(fingerprint) + id;
    FULMAR_ASSIGN(const RedisReply reply, link_.call({"HGET", key, "turn"}));
    return reply.kind == RedisReply::Kind::text ? number_of<int64_t>(reply.text) : int64_t{0};
  }

  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    std::vector<Result<bool>> outcomes;
    for (const auto piece : pieces_of(writes, kMostBytesOfATrip)) {
      const auto stored = store_in_one_trip(piece);
      if (stored.ok()) outcomes.insert(outcomes.end(), stored->begin(), stored->end());
      if (!stored.ok()) outcomes.insert(outcomes.end(), piece.size(), stored.error());
    }
    return outcomes;
  }

  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    FULMAR_TRY(make_ready());
    std::vector<std::string> ids{id};
    if (and_branches) {
      FULMAR_ASSIGN(const auto branches, list(fingerprint, {.prefix = id + ":"}));
      for (const StoredSession& branch : branches) ids.push_back(branch.id);
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

  Result<std::vector<StoredSession>> list(const std::string& fingerprint,
                                          const SessionQuery& query) override {
    FULMAR_TRY(make_ready());
    const std::string key = list_key(fingerprint), prefix = session_prefix(fingerprint);
    FULMAR_ASSIGN(const RedisReply reply, link_.call({"EVAL", kListScript, "1", key, prefix, query.prefix}));
    std::vector<StoredSession> sessions = sessions_of(reply);
    std::erase_if(sessions, [&](const StoredSession& session) { return !query.covers(session.id); });
    std::ranges::sort(sessions, {}, &StoredSession::id);
    if (static_cast<int64_t>(sessions.size()) > query.limit) {
      sessions.resize(static_cast<size_t>(query.limit));
    }
    return sessions;
  }

  // Removes what is beyond the bound in bytes; the server itself expires what is too old.
  Result<std::vector<StoredSession>> sweep(const std::string& fingerprint) override {
    if (most_bytes_ == 0) return std::vector<StoredSession>();
    FULMAR_TRY(make_ready());
    const std::string key = list_key(fingerprint), prefix = session_prefix(fingerprint);
    const std::string most = std::to_string(most_bytes_);
    FULMAR_ASSIGN(const RedisReply reply,
                  link_.call({"EVAL", kSweepScript, "1", key, prefix, most, kMostSwept}));
    return sessions_of(reply);
  }
  void try_at_once() override { link_.try_at_once(); }

 private:
  Status make_ready() {
    if (!ready_) FULMAR_TRY(check_schema(link_));
    ready_ = true;
    return {};
  }

  // Makes each write a transaction of its own, so that a failure concerns no other.
  Result<std::vector<Result<bool>>> store_in_one_trip(std::span<const SessionWrite> writes) {
    FULMAR_TRY(make_ready());
    std::vector<StoreWords> words;
    for (const SessionWrite& write : writes) words.push_back(words_of(write));
    std::vector<std::vector<std::string_view>> commands;
    for (const StoreWords& one : words) commands.push_back(one.command());
    FULMAR_ASSIGN(const auto replies, link_.each(commands));
    std::vector<Result<bool>> outcomes;
    for (size_t i = 0; i < replies.size(); ++i) {
      if (replies[i].ok()) outcomes.emplace_back(replies[i]->integer != 0);
      if (!replies[i].ok()) {
        outcomes.emplace_back(Error{replies[i].error().kind,
                                    fmt::format("session '{}': {}", writes[i].id, replies[i].error().text)});
      }
    }
    return outcomes;
  }

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
            .writer = writer_,
            .owner = write.owner};
  }

  RedisLink link_;
  const std::chrono::milliseconds time_to_live_;
  const int64_t most_bytes_;
  bool ready_ = false;
  const std::string writer_ = fresh_writer();
};

}  // namespace

std::unique_ptr<SessionStore> redis_store(const RedisStoreOptions& options) {
  return std::make_unique<RedisStore>(options);
}

Status check_redis(const RedisAddress& address) {
  RedisLink link(address);
  FULMAR_TRY(link.call({"PING"}));
  return check_schema(link);
}

}  // namespace fulmar
