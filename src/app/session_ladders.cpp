#include "app/session_ladders.h"

#include <chrono>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "cache/redis_store.h"
#include "cache/sqlite_store.h"

namespace fulmar {

namespace {

// A database that is open once and used by several ladders, one at a time.
struct OneStore {
  std::mutex mutex;
  std::unique_ptr<SessionStore> store;
};

class StoreDoor final : public SessionStore {
 public:
  explicit StoreDoor(std::shared_ptr<OneStore> one) : one_(std::move(one)) {}

  Result<std::optional<StateBlob>> load(const std::string& fingerprint, const std::string& id) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->load(fingerprint, id);
  }
  Result<std::vector<std::string>> store(const std::vector<SessionWrite>& writes) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->store(writes);
  }
  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->erase(fingerprint, id, and_branches);
  }
  bool shared() const override { return one_->store->shared(); }
  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->newest_turn(fingerprint, id);
  }
  Result<std::vector<StoredSession>> list(const std::string& fingerprint) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->list(fingerprint);
  }

 private:
  const std::shared_ptr<OneStore> one_;
};

// Each ladder has a connection of its own to a server.
Result<std::function<std::unique_ptr<SessionStore>()>> redis_doors(const SessionFlags& flags) {
  FULMAR_ASSIGN(const RedisAddress address, parse_redis_url(flags.state_store));
  if (const Status status = check_redis(address); !status.ok()) {
    spdlog::error("{}; sessions live in memory until it answers", status.error().text);
  }
  const RedisStoreOptions options{
      .address = address,
      .time_to_live = std::chrono::milliseconds(std::llround(flags.state_ttl_days * 86'400'000))};
  return std::function<std::unique_ptr<SessionStore>()>([options] { return redis_store(options); });
}

}  // namespace

SessionLadders::SessionLadders(const SessionFlags& flags, OpenStore open_store)
    : open_store_(std::move(open_store)) {
  options_.host_capacity = flags.host_sessions;
  options_.flush_after = std::chrono::milliseconds(std::llround(flags.flush_seconds * 1000));
  options_.on_lost = [lost = lost_](int64_t count) { *lost += count; };
}

Result<std::unique_ptr<SessionLadders>> SessionLadders::open(const SessionFlags& flags) {
  OpenStore doors;
  const std::string& path = flags.session_db;
  if (!flags.state_store.empty()) {
    FULMAR_ASSIGN(doors, redis_doors(flags));
  } else if (!path.empty() && path != "none") {
    auto opened = open_sqlite_store(path);
    if (opened.ok()) {
      auto one = std::make_shared<OneStore>();
      one->store = std::move(*opened);
      doors = [one] { return std::make_unique<StoreDoor>(one); };
    } else if (opened.error().kind == ErrorKind::unavailable && flags.session_db_asked_for) {
      return opened.error();
    } else {
      spdlog::error("{}; sessions live in memory only", opened.error().text);
    }
  }
  return std::unique_ptr<SessionLadders>(new SessionLadders(flags, std::move(doors)));
}

std::shared_ptr<SessionLadder> SessionLadders::of(const std::string& fingerprint) {
  std::weak_ptr<SessionLadder>& known = ladders_[fingerprint];
  if (auto ladder = known.lock()) return ladder;
  auto ladder = std::make_shared<SessionLadder>(fingerprint, open_store_ ? open_store_() : nullptr, options_);
  known = ladder;
  return ladder;
}

}  // namespace fulmar
