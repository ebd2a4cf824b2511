#include "cache/store_courier.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryAfter = std::chrono::seconds(1);
// States kept in memory while the store refuses them; beyond, one gives way.
constexpr size_t kMostQueued = 1024;

bool contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void decide(std::atomic<TurnFate>& fate, TurnFate decided) {
  fate = decided;
  fate.notify_all();
}

}  // namespace

StoreCourier::StoreCourier(std::unique_ptr<SessionStore> store, std::string fingerprint)
    : store_(std::move(store)),
      shared_(store_->shared()),
      fingerprint_(std::move(fingerprint)),
      thread_([this] { run(); }) {}

StoreCourier::~StoreCourier() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreCourier::on_news(std::function<void()> news) {
  std::lock_guard lock(mutex_);
  news_ = std::move(news);
}

TurnTicket StoreCourier::put(SessionWrite write) {
  auto fate = std::make_shared<std::atomic<TurnFate>>(TurnFate::under_way);
  {
    std::lock_guard lock(mutex_);
    queued_[write.id] = {std::move(write.blob), fate};
    if (queued_.size() > kMostQueued) {
      spdlog::error("session store: {} states wait for it; '{}' is given up", queued_.size(),
                    queued_.begin()->first);
      decide(*queued_.begin()->second.fate, TurnFate::kept);
      queued_.erase(queued_.begin());
    }
  }
  changed_.notify_all();
  return fate;
}

void StoreCourier::ask(std::shared_ptr<SessionLookup> lookup) {
  {
    std::lock_guard lock(mutex_);
    lookups_.push_back(std::move(lookup));
  }
  changed_.notify_all();
}

std::shared_ptr<const StateBlob> StoreCourier::on_its_way(const std::string& id) const {
  std::lock_guard lock(mutex_);
  for (const Parcels* parcels : {&queued_, &writing_}) {
    const auto found = parcels->find(id);
    if (found != parcels->end()) return found->second.blob;
  }
  return nullptr;
}

Result<std::optional<StateBlob>> StoreCourier::load(const std::string& id) {
  if (const auto ours = on_its_way(id)) return std::optional<StateBlob>(*ours);
  std::lock_guard lock(store_mutex_);
  return store_->load(fingerprint_, id);
}

Result<int64_t> StoreCourier::newest_turn(const std::string& id) {
  const auto ours = on_its_way(id);
  if (ours && !shared_) return ours->turn;
  std::lock_guard lock(store_mutex_);
  FULMAR_ASSIGN(const int64_t stored, store_->newest_turn(fingerprint_, id));
  return std::max(stored, ours ? ours->turn : 0);
}

Result<int64_t> StoreCourier::erase(const std::string& id, bool and_branches) {
  const std::string branch = id + ":";
  const auto concerned = [&](const std::string& other) {
    return other == id || (and_branches && other.compare(0, branch.size(), branch) == 0);
  };
  // The store's lock first: a transaction under way must not bring the row back afterwards.
  std::lock_guard store_lock(store_mutex_);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(queued_, [&](const auto& entry) {
      if (concerned(entry.first))
        decide(*entry.second.fate, TurnFate::stored);  // nothing to wait for any more
      return concerned(entry.first);
    });
  }
  return store_->erase(fingerprint_, id, and_branches);
}

Result<std::vector<StoredSession>> StoreCourier::list() {
  std::lock_guard lock(store_mutex_);
  return store_->list(fingerprint_);
}

void StoreCourier::flush() {
  Lock lock(mutex_);
  const int64_t failures = failures_;
  changed_.wait(lock, [&] { return (queued_.empty() && writing_.empty()) || failures_ > failures; });
}

// ---- the courier's thread

void StoreCourier::run() {
  Lock lock(mutex_);
  while (true) {
    wait_for_work(lock);
    // In turns: under load there is always another lookup.
    if (!lookups_.empty()) answer_lookups(lock);
    if (queued_.empty()) {
      if (stopping_ && lookups_.empty()) return;
      continue;
    }
    if (!stopping_ && Clock::now() < retry_at_) continue;
    write_queued(lock);
    if (stopping_ && !queued_.empty()) return;  // tried once more, in vain
  }
}

// Returns when there is a lookup, when something may be written, or when it is time to stop.
void StoreCourier::wait_for_work(Lock& lock) {
  while (!stopping_ && lookups_.empty()) {
    if (queued_.empty()) {
      changed_.wait(lock);
    } else if (Clock::now() < retry_at_) {
      changed_.wait_until(lock, retry_at_);
    } else {
      return;
    }
  }
}

void StoreCourier::answer_lookups(Lock& lock) {
  const auto lookups = std::exchange(lookups_, {});
  const auto news = news_;
  lock.unlock();
  for (const auto& lookup : lookups) {
    answer(*lookup);
    lookup->done = true;
    if (news) news();
  }
  lock.lock();
}

void StoreCourier::answer(SessionLookup& lookup) {
  int64_t known = lookup.known_turn;
  if (const auto ours = on_its_way(lookup.id)) {
    lookup.turn = ours->turn;
    if (ours->turn > known) {
      lookup.state = *ours;
      known = ours->turn;
    }
  }
  std::lock_guard lock(store_mutex_);
  const auto stored = store_->newest_turn(fingerprint_, lookup.id);
  if (!stored.ok()) {
    lookup.status = stored.error();
    return;
  }
  if (*stored <= known) {
    lookup.turn = std::max(lookup.turn, *stored);
    return;
  }
  auto loaded = store_->load(fingerprint_, lookup.id);
  if (!loaded.ok()) {
    lookup.status = loaded.error();
  } else if (loaded->has_value()) {  // else it has just expired
    lookup.turn = (*loaded)->turn;
    lookup.state = std::move(**loaded);
  }
}

void StoreCourier::write_queued(Lock& lock) {
  writing_ = std::exchange(queued_, {});
  std::vector<SessionWrite> writes;
  for (const auto& [id, parcel] : writing_) writes.push_back({id, parcel.blob});
  lock.unlock();
  const auto refused = [&] {
    std::lock_guard store_lock(store_mutex_);
    return store_->store(writes);
  }();
  lock.lock();
  settle(refused);
  const auto news = news_;
  lock.unlock();
  changed_.notify_all();
  if (news) news();
  lock.lock();
}

// Under the lock: tells everybody concerned what became of writing_.
void StoreCourier::settle(const Result<std::vector<std::string>>& refused) {
  if (!refused.ok()) {
    failures_++;
    retry_at_ = Clock::now() + kRetryAfter;
    spdlog::error("{}; {} sessions stay in memory", refused.error().text, writing_.size());
  }
  for (auto& [id, parcel] : writing_) {
    if (!refused.ok()) {
      decide(*parcel.fate, TurnFate::kept);
      queued_.emplace(id, std::move(parcel));  // a newer turn queued since wins
    } else if (contains(*refused, id)) {
      decide(*parcel.fate, TurnFate::refused);
      spdlog::warn("session '{}': turn {} came too late, another worker has committed it", id,
                   parcel.blob->turn);
    } else {
      decide(*parcel.fate, TurnFate::stored);
    }
  }
  writing_.clear();
}

}  // namespace fulmar
