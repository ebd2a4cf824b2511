#include "app/served/session_ladders.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "cache/database_file.h"
#include "cache/redis_store.h"
#include "cache/sqlite_store.h"

namespace fulmar {

namespace {

// A database that is open once and used by several ladders in turn.
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
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->store(writes);
  }
  Result<int64_t> erase(const std::string& fingerprint, const std::string& id, bool and_branches) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->erase(fingerprint, id, and_branches);
  }
  bool shared() const override { return one_->store->shared(); }
  int64_t lost(const std::string& fingerprint) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->lost(fingerprint);
  }
  void try_at_once() override {
    std::lock_guard lock(one_->mutex);
    one_->store->try_at_once();
  }
  Result<int64_t> newest_turn(const std::string& fingerprint, const std::string& id) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->newest_turn(fingerprint, id);
  }
  Result<std::vector<StoredSession>> list(const std::string& fingerprint,
                                          const SessionQuery& query) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->list(fingerprint, query);
  }
  Result<std::vector<StoredSession>> sweep(const std::string& fingerprint) override {
    std::lock_guard lock(one_->mutex);
    return one_->store->sweep(fingerprint);
  }

 private:
  const std::shared_ptr<OneStore> one_;
};

using OpenStore = std::function<std::unique_ptr<SessionStore>()>;

constexpr double kDay = 86'400;
constexpr double kSharedDays = 30;  // lifetime in a shared store without --session-ttl-days
constexpr double kLongestBetweenSweeps = 60, kShortestBetweenSweeps = 1;  // seconds

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

int64_t most_bytes(const SessionFlags& flags) { return std::llround(flags.max_gib * (int64_t{1} << 30)); }

// Returns the seconds that a session lives after its last turn; 0: for ever.
double lifetime(const SessionFlags& flags) {
  const double days = flags.state_store.empty() ? 0 : kSharedDays;
  return flags.ttl_days.value_or(days) * kDay;
}

// Returns the time between sweeps: short enough that nothing lives much longer than it may.
std::chrono::milliseconds between_sweeps(const SessionFlags& flags) {
  if (lifetime(flags) == 0) return milliseconds(kLongestBetweenSweeps);
  return milliseconds(std::clamp(lifetime(flags) / 20, kShortestBetweenSweeps, kLongestBetweenSweeps));
}

// Returns a function that opens connections: each ladder has one of its own to a server.
Result<OpenStore> redis_doors(const SessionFlags& flags) {
  FULMAR_ASSIGN(const RedisAddress address, usable_redis_address(flags.state_store));
  if (const Status status = check_redis(address); !status.ok()) {
    if (status.error().kind != ErrorKind::unavailable) return status.error();
    spdlog::error("{}; sessions live in memory until it answers", status.error().text);
  }
  const RedisStoreOptions options{
      .address = address, .time_to_live = milliseconds(lifetime(flags)), .most_bytes = most_bytes(flags)};
  return OpenStore([options] { return redis_store(options); });
}

Error told_what_to_do(const Error& error) {
  const bool in_use = error.kind == ErrorKind::unavailable, full = error.kind == ErrorKind::resource;
  return {
      full ? ErrorKind::io : error.kind,
      error.text +
          (in_use ? "; stop that one, "
                  : "; nothing was changed. Mend what stands in the way (room on the disk, rights, the file "
                    "itself), move it away, ") +
          "or name another file with --state-db-path ('none': sessions in memory)"};
}

struct FileDoors {
  OpenStore open;         // null: sessions live in memory
  std::string in_memory;  // why
};

// Opens the file of sessions. Fails for a file that was named, or that may hold sessions: without it they
// would seem to be gone. One that is new, or that another server has, is replaced by memory.
Result<FileDoors> file_doors(const SessionFlags& flags) {
  const bool holds = may_hold_something(flags.session_db);  // before it is made
  auto opened = open_sqlite_store(
      flags.session_db,
      {.most_bytes = most_bytes(flags), .lifetime = lifetime(flags), .durable = flags.durable});
  if (!opened.ok()) {
    const bool others = opened.error().kind == ErrorKind::unavailable;
    if (flags.session_db_asked_for || (holds && !others)) return told_what_to_do(opened.error());
    const std::string why = opened.error().text + "; sessions live in memory only and end with this server";
    spdlog::error("{}", why);
    return FileDoors{.open = nullptr, .in_memory = why};
  }
  auto one = std::make_shared<OneStore>();
  one->store = std::move(*opened);
  return FileDoors{.open = [one] { return std::make_unique<StoreDoor>(one); }, .in_memory = {}};
}

}  // namespace

Status check_sessions(const SessionFlags& flags, bool store_of_environment) {
  const bool shared = !flags.state_store.empty(), file = flags.session_db != "none";
  if (flags.durable && !shared && !file) {
    return Error{ErrorKind::invalid,
                 "--durable-sessions waits for the disk, and --state-db-path is none; wanted a file, or "
                 "--state-store"};
  }
  if (shared && file && flags.session_db_asked_for && !store_of_environment) {
    return Error{ErrorKind::invalid,
                 fmt::format("--state-db-path is '{}' beside --state-store, which takes the place "
                             "of the file; wanted one of them",
                             flags.session_db)};
  }
  return {};
}

SessionLadders::SessionLadders(const SessionFlags& flags, OpenStore open_store)
    : open_store_(std::move(open_store)) {
  options_.flush_after = milliseconds(flags.flush_seconds);
  options_.durable = flags.durable;
  options_.on_lost = [lost = lost_](int64_t count) { *lost += count; };
  options_.store = {.most_bytes = flags.queue_mib << 20,
                    .sweep_every = between_sweeps(flags),
                    .last_tries = SessionLadders::kLastTries};
}

Result<std::unique_ptr<SessionLadders>> SessionLadders::open(const SessionFlags& flags) {
  FileDoors doors;
  if (!flags.state_store.empty()) {
    FULMAR_ASSIGN(doors.open, redis_doors(flags));
  } else if (!flags.session_db.empty() && flags.session_db != "none") {
    FULMAR_ASSIGN(doors, file_doors(flags));
  }
  auto ladders = std::unique_ptr<SessionLadders>(new SessionLadders(flags, std::move(doors.open)));
  ladders->in_memory_ = std::move(doors.in_memory);
  return ladders;
}

Status SessionLadders::erase_of_all_models(const std::string& id) const {
  const auto door = open_store_ ? open_store_() : nullptr;
  if (!door || door->shared()) return {};
  const auto erased = door->erase({}, id, false);
  return erased.ok() ? Status() : Status(erased.error());
}

std::shared_ptr<SessionLadder> SessionLadders::of(const std::string& fingerprint, int64_t host_sessions) {
  std::weak_ptr<SessionLadder>& known = ladders_[fingerprint];
  if (auto ladder = known.lock()) return ladder;
  LadderOptions options = options_;
  options.host_capacity = host_sessions;
  auto ladder = std::make_shared<SessionLadder>(fingerprint, open_store_ ? open_store_() : nullptr, options);
  known = ladder;
  return ladder;
}

}  // namespace fulmar
