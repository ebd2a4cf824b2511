#include "cache/store_courier.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/unix_time.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryAfter = std::chrono::seconds(1);
// States kept in memory while the store refuses them; beyond, one gives way.
constexpr size_t kMostQueued = 1024;

bool contains(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// What the store throws, want of memory above all, is a failure of the store: the thread goes on.
template <class Work>
auto caught(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& failure) {
    return Error{ErrorKind::resource, std::string("session store: ") + failure.what()};
  }
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

StoreCourier::~StoreCourier() { close(); }

int64_t StoreCourier::close() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return given_up_ + static_cast<int64_t>(queued_.size() + erasures_.size());
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
      given_up_++;
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

TurnTicket StoreCourier::erase(SessionRange range) {
  auto fate = std::make_shared<std::atomic<TurnFate>>(TurnFate::under_way);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(queued_, [&](const auto& entry) {
      const bool covered = range.covers(entry.first);
      if (covered) decide(*entry.second.fate, TurnFate::stored);  // nothing to wait for any more
      return covered;
    });
    erasures_.push_back({std::move(range), fate});
  }
  changed_.notify_all();
  return fate;
}

// Under the lock.
bool StoreCourier::erased(const std::string& id) const {
  return std::any_of(erasures_.begin(), erasures_.end(),
                     [&](const Erasure& erasure) { return erasure.range.covers(id); });
}

StoreCourier::Queued StoreCourier::on_its_way(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto queued = queued_.find(id);
  if (queued != queued_.end()) return {.blob = queued->second.blob};
  if (erased(id)) return {.erased = true};
  const auto writing = writing_.find(id);
  if (writing != writing_.end()) return {.blob = writing->second.blob};
  return {};
}

Result<std::shared_ptr<const StateBlob>> StoreCourier::load(const std::string& id) {
  if (auto ours = on_its_way(id); ours.blob || ours.erased) return std::move(ours.blob);
  std::lock_guard lock(store_mutex_);
  FULMAR_ASSIGN(auto stored, store_->load(fingerprint_, id));
  if (!stored) return std::shared_ptr<const StateBlob>();
  return std::shared_ptr<const StateBlob>(std::make_shared<StateBlob>(std::move(*stored)));
}

Result<int64_t> StoreCourier::newest_turn(const std::string& id) {
  const Queued ours = on_its_way(id);
  const int64_t turn = ours.blob ? ours.blob->turn : 0;
  if (ours.erased || (ours.blob && !shared_)) return turn;
  std::lock_guard lock(store_mutex_);
  FULMAR_ASSIGN(const int64_t stored, store_->newest_turn(fingerprint_, id));
  return std::max(stored, turn);
}

Result<std::vector<StoredSession>> StoreCourier::list() {
  Result<std::vector<StoredSession>> stored = [&] {
    std::lock_guard lock(store_mutex_);
    return store_->list(fingerprint_);
  }();
  if (!stored.ok()) return stored;
  std::lock_guard lock(mutex_);
  std::map<std::string, std::shared_ptr<const StateBlob>> ours;
  for (const auto& [id, parcel] : queued_) ours.emplace(id, parcel.blob);
  for (const auto& [id, parcel] : writing_) {
    if (!erased(id)) ours.emplace(id, parcel.blob);
  }
  std::erase_if(
      *stored, [&](const StoredSession& session) { return ours.contains(session.id) || erased(session.id); });
  std::vector<StoredSession> sessions;
  for (const auto& [id, blob] : ours) sessions.push_back({id, unix_time(), blob->tokens, blob->turn});
  sessions.insert(sessions.end(), std::make_move_iterator(stored->begin()),
                  std::make_move_iterator(stored->end()));
  return sessions;
}

void StoreCourier::flush() {
  Lock lock(mutex_);
  const int64_t failures = failures_;
  changed_.wait(lock, [&] { return nothing_queued() || failures_ > failures; });
}

// ---- the courier's thread

void StoreCourier::run() {
  Lock lock(mutex_);
  while (true) {
    wait_for_work(lock);
    // In turns: under load there is always another lookup.
    if (!lookups_.empty()) answer_lookups(lock);
    if (nothing_queued()) {
      if (stopping_ && lookups_.empty()) return;
      continue;
    }
    if (!stopping_ && Clock::now() < retry_at_) continue;
    const bool last_try = stopping_;  // else more may be queued while this try is under way
    if (erase_queued(lock) && !queued_.empty()) write_queued(lock);
    if (last_try && !nothing_queued()) return;  // in vain
  }
}

// Returns when there is a lookup, when something may be written, or when it is time to stop.
void StoreCourier::wait_for_work(Lock& lock) {
  while (!stopping_ && lookups_.empty()) {
    if (nothing_queued()) {
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
    lookup->answered();
    if (news) news();
  }
  lock.lock();
}

void StoreCourier::answer(SessionLookup& lookup) {
  int64_t known = lookup.known_turn;
  const Queued ours = on_its_way(lookup.id);
  if (ours.erased) return;
  if (ours.blob) {
    lookup.turn = ours.blob->turn;
    if (ours.blob->turn > known) {
      lookup.state = ours.blob;
      known = ours.blob->turn;
    }
  }
  lookup.status = caught([&] { return answer_from_store(lookup, known); });
}

// Tells of the stored turn, and of its state where it is newer than `known`.
Status StoreCourier::answer_from_store(SessionLookup& lookup, int64_t known) {
  std::lock_guard lock(store_mutex_);
  FULMAR_ASSIGN(const int64_t stored, store_->newest_turn(fingerprint_, lookup.id));
  if (stored <= known) {
    lookup.turn = std::max(lookup.turn, stored);
    return {};
  }
  FULMAR_ASSIGN(auto loaded, store_->load(fingerprint_, lookup.id));
  if (!loaded) return {};  // it has just expired
  lookup.turn = loaded->turn;
  lookup.state = std::make_shared<StateBlob>(std::move(*loaded));
  return {};
}

// False when the store has failed: what is queued has to wait behind the erasure then.
bool StoreCourier::erase_queued(Lock& lock) {
  while (!erasures_.empty()) {
    const SessionRange range = erasures_.front().range;
    lock.unlock();
    const auto erased = caught([&] {
      std::lock_guard store_lock(store_mutex_);
      return store_->erase(fingerprint_, range.id, range.and_branches);
    });
    lock.lock();
    const Fate fate = erasures_.front().fate;  // others are added behind it only
    if (!erased.ok()) {
      store_failed(erased.error());
      decide(*fate, TurnFate::kept);
      changed_.notify_all();
      return false;
    }
    erasures_.erase(erasures_.begin());
    decide(*fate, TurnFate::stored);
    changed_.notify_all();
  }
  return true;
}

void StoreCourier::write_queued(Lock& lock) {
  writing_ = std::exchange(queued_, {});
  std::vector<SessionWrite> writes;
  for (const auto& [id, parcel] : writing_) writes.push_back({id, parcel.blob});
  lock.unlock();
  const auto refused = caught([&] {
    std::lock_guard store_lock(store_mutex_);
    return store_->store(writes);
  });
  lock.lock();
  tell_fates(refused);
  const auto news = news_;
  lock.unlock();
  changed_.notify_all();
  if (news) news();
  lock.lock();
}

// Under the lock.
void StoreCourier::store_failed(const Error& error) {
  failures_++;
  retry_at_ = Clock::now() + kRetryAfter;
  spdlog::error("{}; {} turns and {} erasures wait in memory", error.text, writing_.size() + queued_.size(),
                erasures_.size());
}

// Under the lock: tells everybody concerned what became of writing_.
void StoreCourier::tell_fates(const Result<std::vector<std::string>>& refused) {
  if (!refused.ok()) store_failed(refused.error());
  for (auto& [id, parcel] : writing_) {
    if (!refused.ok()) {
      decide(*parcel.fate, TurnFate::kept);
      if (!erased(id)) queued_.emplace(id, std::move(parcel));  // a newer turn queued since wins
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
