// A session store that fails at one kind of call, under an engine with nothing in memory, and every door to
// sessions: what the store cannot tell is never told as if there were none.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/http_client.h"
#include "server/server.h"
#include "server/server_rig.h"
#include "server/small_model.h"
#include "support/tiny_engine.h"

namespace fulmar::testing {
namespace {

enum class Call : uint8_t { none, load, store, erase, newest_turn, list };
constexpr Call kCalls[] = {Call::load, Call::store, Call::erase, Call::newest_turn, Call::list};
const char* const kNames[] = {"none", "load", "store", "erase", "newest_turn", "list"};

// What outlives the engines of a test.
struct Disk {
  std::map<std::string, StateBlob> blobs;
  std::atomic<Call> fails = Call::none;
  std::mutex mutex;

  std::map<std::string, int64_t> turns() {
    std::lock_guard lock(mutex);
    std::map<std::string, int64_t> turns;
    for (const auto& [id, blob] : blobs) turns[id] = blob.turn;
    return turns;
  }
};

class DiskStore final : public SessionStore {
 public:
  explicit DiskStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}
  Result<std::optional<StateBlob>> load(const std::string&, const std::string& id) override {
    std::lock_guard lock(disk_->mutex);
    if (disk_->fails == Call::load) return broken();
    const auto found = disk_->blobs.find(id);
    return found == disk_->blobs.end() ? std::optional<StateBlob>() : std::optional(found->second);
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    std::lock_guard lock(disk_->mutex);
    if (disk_->fails == Call::store) return std::vector<Result<bool>>(writes.size(), broken());
    for (const SessionWrite& write : writes) disk_->blobs[write.id] = *write.blob;
    return std::vector<Result<bool>>(writes.size(), true);
  }
  Result<int64_t> erase(const std::string&, const std::string& id, bool and_branches) override {
    std::lock_guard lock(disk_->mutex);
    if (disk_->fails == Call::erase) return broken();
    const SessionRange range{id, and_branches};
    return static_cast<int64_t>(
        std::erase_if(disk_->blobs, [&](const auto& one) { return range.covers(one.first); }));
  }
  Result<int64_t> newest_turn(const std::string&, const std::string& id) override {
    std::lock_guard lock(disk_->mutex);
    if (disk_->fails == Call::newest_turn) return broken();
    const auto found = disk_->blobs.find(id);
    return found == disk_->blobs.end() ? int64_t{0} : found->second.turn;
  }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery& query) override {
    std::lock_guard lock(disk_->mutex);
    if (disk_->fails == Call::list) return broken();
    std::vector<StoredSession> sessions;
    for (const auto& [id, blob] : disk_->blobs) {
      if (query.covers(id)) sessions.push_back({id, 0, blob.tokens, blob.turn});
    }
    return sessions;
  }

 private:
  static Error broken() { return {ErrorKind::io, "the disk is malformed"}; }
  const std::shared_ptr<Disk> disk_;
};

// A process: a server over an engine, with nothing in memory at first.
class Worker {
 public:
  explicit Worker(const std::shared_ptr<Disk>& disk)
      : tiny_({.slots = 4, .prefill_chunk = 16}, 7, std::make_unique<DiskStore>(disk)) {
    models_.add(small_model(tiny_.engine(), tiny_.tokenizer()));
    auto started = Server::start({.port = 0}, models_);
    EXPECT_TRUE(started.ok());
    server_ = std::move(*started);
  }
  Reply send(const std::string& method, const std::string& path, std::string body) const {
    const auto response = fetch(method, "http://" + server_->address() + path, {}, std::move(body));
    EXPECT_TRUE(response.ok());
    return response.ok() ? Reply{response->status, response->headers, response->body, {}} : Reply();
  }

 private:
  TinyEngine tiny_;
  ModelRegistry models_;
  std::unique_ptr<Server> server_;
};

struct Door {
  std::string method, path, body;
};

const std::vector<Door>& doors() {
  static const std::vector<Door> doors = {
      {"GET", "/v1/sessions", ""},
      {"POST", "/state/status", "{}"},
      {"GET", "/v1/sessions/s/state", ""},
      {"PUT", "/v1/sessions/s/state", "@state"},
      {"POST", "/v1/sessions/s/fork", R"({"session_id":"copy"})"},
      {"DELETE", "/v1/sessions/s", ""},
      {"DELETE", "/v1/sessions/none", ""},
      {"POST", "/state/delete", R"({"session_id":"s"})"},
      {"POST", "/state/delete", R"({"session_id":"tree","delete_prefix":true})"},
      {"POST", "/state/chat/completions",
       R"({"session_id":"s","contents":["User: b"],"temperature":0,"max_tokens":2})"},
      {"POST", "/multi_state/chat/completions",
       R"({"session_id":"tree","dialogue_idx":1,"contents":["User: b"],"temperature":0,"max_tokens":2})"},
      {"POST", "/v1/chat/completions",
       R"({"session_id":"s","messages":[{"role":"user","content":"b"}],"temperature":0,"max_tokens":2})"},
  };
  return doors;
}

class SilentStore : public ::testing::Test {
 protected:
  // A disk with a session, and a tree of two nodes.
  static std::shared_ptr<Disk> filled() {
    auto disk = std::make_shared<Disk>();
    const Worker worker(disk);
    worker.send("POST", "/state/chat/completions",
                R"({"session_id":"s","contents":["User: a"],"temperature":0,"max_tokens":2})");
    for (int i = 0; i < 2; ++i) {
      worker.send(
          "POST", "/multi_state/chat/completions",
          R"({"session_id":"tree","dialogue_idx":0,"contents":["User: a"],"temperature":0,"max_tokens":2})");
    }
    return disk;
  }
  static Reply through(const Door& door, const Worker& worker, const std::string& state) {
    return worker.send(door.method, door.path, door.body == "@state" ? state : door.body);
  }
};

TEST_F(SilentStore, IsNeverTakenForAnEmptyOne) {
  const auto original = filled();
  ASSERT_EQ(original->turns().size(), 3u);
  const std::string state = Worker(original).send("GET", "/v1/sessions/s/state", "").body;
  int refused = 0;
  for (const Door& door : doors()) {
    for (const Call call : kCalls) {
      SCOPED_TRACE(door.method + " " + door.path + " " + door.body + ": " + kNames[static_cast<int>(call)]);
      const auto well = std::make_shared<Disk>(), ill = std::make_shared<Disk>();
      well->blobs = ill->blobs = original->blobs;
      ill->fails = call;
      const Reply wanted = through(door, Worker(well), state);
      const auto worker = std::make_unique<const Worker>(ill);
      const Reply found = through(door, *worker, state);
      if (found.status != 503) {
        EXPECT_EQ(found.status, wanted.status) << found.body;
        EXPECT_EQ(steady(found.body), steady(wanted.body));
        continue;
      }
      ++refused;
      EXPECT_NE(found.headers.get("Retry-After"), "");
      EXPECT_NE(found.body.find("store"), std::string::npos) << found.body;
      if (call == Call::erase) continue;  // it is told again, until it has erased
      ill->fails = Call::none;
      EXPECT_EQ(ill->turns(), original->turns());
    }
  }
  EXPECT_GT(refused, 15);
}

TEST_F(SilentStore, KeepsAResponseUntilItsStateCanBeErased) {
  for (const Call call : {Call::list, Call::erase}) {
    SCOPED_TRACE(kNames[static_cast<int>(call)]);
    const auto disk = std::make_shared<Disk>();
    const Worker worker(disk);
    const std::string made =
        worker.send("POST", "/v1/responses", R"({"input":"a","max_output_tokens":2})").body;
    const std::string path = "/v1/responses/" + parse_json(made)->find("id")->as_string();
    disk->fails = call;
    EXPECT_EQ(worker.send("DELETE", path, "").status, 503);
    EXPECT_EQ(worker.send("GET", path, "").status, 200);
    disk->fails = Call::none;
    EXPECT_EQ(worker.send("DELETE", path, "").status, 200);
    EXPECT_EQ(worker.send("GET", path, "").status, 404);
    EXPECT_EQ(worker.send("DELETE", path, "").status, 404);
  }
}

TEST_F(SilentStore, IsToldByHealthUntilItTells) {
  const auto disk = filled();
  const Worker worker(disk);
  disk->fails = Call::list;
  EXPECT_EQ(worker.send("GET", "/v1/sessions", "").status, 503);
  EXPECT_NE(worker.send("GET", "/health", "").body.find("degraded"), std::string::npos);
  EXPECT_EQ(worker.send("GET", "/v1/sessions/s/state", "").status, 200) << "no list is asked for";
  EXPECT_NE(worker.send("GET", "/health", "").body.find("degraded"), std::string::npos);
  disk->fails = Call::none;
  EXPECT_EQ(worker.send("GET", "/v1/sessions", "").status, 200);
  EXPECT_EQ(worker.send("GET", "/health", "").body.find("degraded"), std::string::npos);
}

}  // namespace
}  // namespace fulmar::testing
