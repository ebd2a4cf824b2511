#include "cache/write_behind_queue.h"

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/unix_time.h"
#include "cache/session_name.h"

namespace fulmar {

namespace {

constexpr auto kRetryAfter = std::chrono::seconds(1);
// What is queued at the end is tried at least this often: the second try renews a connection that broke
// meanwhile.
constexpr int kLastTries = 2;
// Between tries beyond them.
constexpr auto kBetweenLastTries = std::chrono::milliseconds(50);

// Returns the same failure for all writes.
std::vector<Result<bool>> all_failed(size_t count, const Error& error) {
  return std::vector<Result<bool>>(count, error);
}

// Returns whether the failure concerns the whole store, not one session.
bool is_away(const Error& error) {
  return error.kind == ErrorKind::unavailable || error.kind == ErrorKind::resource;
}

// Turns an exception of the store, mostly for lack of memory, into a failure: the thread goes on.
template <class Work>
auto caught(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& failure) {
    return Error{ErrorKind::resource, std::string("session store: ") + failure.what()};
  }
}

Error cannot_tell() {
  return {ErrorKind::unavailable, "the session store fails and cannot tell of the session; try again later"};
}

void decide(std::atomic<WriteStatus>& status, WriteStatus decided) {
  status = decided;
  status.notify_all();
}

}  // namespace

WriteBehindQueue::WriteBehindQueue(std::unique_ptr<SessionStore> store, std::string fingerprint,
                                   WriteBehindOptions options)
    : store_(std::move(store)),
      shared_(store_->shared()),
      fingerprint_(std::move(fingerprint)),
      options_(options),
      thread_("store", [this] { run(); }) {}

WriteBehindQueue::~WriteBehindQueue() { close(); }

int64_t WriteBehindQueue::close() {
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) give_up_at_ = Clock::now() + options_.last_tries;
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return static_cast<int64_t>(queued_.size() + erasures_.size()) + store_->lost(fingerprint_);
}

void WriteBehindQueue::on_news(std::function<void()> news) {
  std::lock_guard lock(mutex_);
  news_ = std::move(news);
}

void WriteBehindQueue::on_sweep(std::function<void(const std::vector<StoredSession>&)> swept) {
  std::lock_guard lock(mutex_);
  swept_ = std::move(swept);
}

StoreHealth WriteBehindQueue::health() const {
  std::lock_guard lock(mutex_);
  const std::string& beside = sweep_trouble_.empty() ? unlisted_trouble_ : sweep_trouble_;
  return {.failures = failures_,
          .waiting_bytes = waiting_bytes_,
          .trouble = trouble_.empty() ? beside : trouble_};
}

// Computes the waiting bytes; the lock is held.
void WriteBehindQueue::count_waiting() {
  int64_t bytes = 0;
  for (const PendingWrites* lists : {&queued_, &writing_}) {
    for (const auto& [id, pending] : *lists) bytes += static_cast<int64_t>(pending.blob->payload.size());
  }
  waiting_bytes_ = bytes;
}

WriteTicket WriteBehindQueue::put(SessionWrite write) {
  auto status = std::make_shared<std::atomic<WriteStatus>>(WriteStatus::under_way);
  {
    std::lock_guard lock(mutex_);
    queued_[write.id] = {.blob = std::move(write.blob),
                         .owner = std::move(write.owner),
                         .status = status,
                         .number = ++last_number_};
    count_waiting();
  }
  changed_.notify_all();
  return status;
}

void WriteBehindQueue::ask(std::shared_ptr<SessionLookup> lookup) {
  {
    std::lock_guard lock(mutex_);
    lookups_.push_back(std::move(lookup));
  }
  changed_.notify_all();
}

WriteTicket WriteBehindQueue::erase(SessionRange range) {
  auto status = std::make_shared<std::atomic<WriteStatus>>(WriteStatus::under_way);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(queued_, [&](const auto& entry) {
      const bool covered = range.covers(entry.first);
      if (covered) decide(*entry.second.status, WriteStatus::stored);  // nothing left to wait for
      return covered;
    });
    erasures_.push_back({std::move(range), status});
    count_waiting();
  }
  changed_.notify_all();
  return status;
}

// Returns whether an erasure of the session is queued; the lock is held.
bool WriteBehindQueue::erased(const std::string& id) const {
  return std::any_of(erasures_.begin(), erasures_.end(),
                     [&](const Erasure& erasure) { return erasure.range.covers(id); });
}

WriteBehindQueue::Queued WriteBehindQueue::on_its_way(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto queued = queued_.find(id);
  if (queued != queued_.end()) return {.blob = queued->second.blob};
  if (erased(id)) return {.erased = true};
  const auto writing = writing_.find(id);
  if (writing != writing_.end()) return {.blob = writing->second.blob};
  return {};
}

Result<std::shared_ptr<const StateBlob>> WriteBehindQueue::load(const std::string& id) {
  if (auto ours = on_its_way(id); ours.blob || ours.erased) return std::move(ours.blob);
  std::unique_lock lock(store_mutex_);
  auto answer = store_->load(fingerprint_, id);
  lock.unlock();
  FULMAR_ASSIGN(auto stored, noted(std::move(answer)));
  if (!stored) return std::shared_ptr<const StateBlob>();
  return std::shared_ptr<const StateBlob>(std::make_shared<StateBlob>(std::move(*stored)));
}

Result<int64_t> WriteBehindQueue::newest_turn(const std::string& id) {
  const Queued ours = on_its_way(id);
  const int64_t turn = ours.blob ? ours.blob->turn : 0;
  if (ours.erased || (ours.blob && !shared_)) return turn;
  std::unique_lock lock(store_mutex_);
  auto answer = store_->newest_turn(fingerprint_, id);
  lock.unlock();
  FULMAR_ASSIGN(const int64_t stored, noted(std::move(answer)));
  return std::max(stored, turn);
}

// Looks at what is queued first: what the store gets meanwhile is then found there.
Result<std::vector<StoredSession>> WriteBehindQueue::list(const SessionQuery& query) {
  std::map<std::string, StoredSession> ours, sessions;
  {
    std::lock_guard lock(mutex_);
    for (const PendingWrites* lists : {&writing_, &queued_}) {
      for (const auto& [id, pending] : *lists) {
        if (!query.covers(id) || (lists == &writing_ && erased(id))) continue;
        ours[id] = {id, unix_time(), pending.blob->tokens, pending.blob->turn};
      }
    }
  }
  SessionQuery rest = query;
  // The store is asked on until there are enough: some of what it has may be erased here.
  for (bool more = true; more && static_cast<int64_t>(sessions.size()) < query.limit;) {
    FULMAR_ASSIGN(auto stored, list_stored(rest));
    more = static_cast<int64_t>(stored.size()) == rest.limit;
    if (more) rest.after = stored.back().id;
    std::lock_guard lock(mutex_);
    for (StoredSession& session : stored) {
      if (!erased(session.id)) sessions[session.id] = std::move(session);
    }
  }
  for (auto& [id, session] : ours) sessions[id] = std::move(session);
  std::vector<StoredSession> page;
  for (auto& [id, session] : sessions) {
    if (static_cast<int64_t>(page.size()) == query.limit) break;
    page.push_back(std::move(session));
  }
  return page;
}

// Returns the store's answer, and remembers whether there was one.
Result<std::vector<StoredSession>> WriteBehindQueue::list_stored(const SessionQuery& query) {
  const auto told = caught([&] {
    std::lock_guard lock(store_mutex_);
    return store_->list(fingerprint_, query);
  });
  std::lock_guard lock(mutex_);
  if (!told.ok()) {
    spdlog::error("sessions not listed: {}", told.error().text);
    failures_++;
    unlisted_ = query;
    unlisted_trouble_ = told.error().text;
  } else if (unlisted_ && unlisted_->prefix == query.prefix && unlisted_->after == query.after) {
    unlisted_.reset();
    unlisted_trouble_.clear();
  }
  return told;
}

// Asks once more for a list that the store could not give.
void WriteBehindQueue::list_again(Lock& lock) {
  const std::optional<SessionQuery> query = unlisted_;
  if (!query) return;
  lock.unlock();
  (void)list_stored(*query);
  lock.lock();
}

// Passes on the store's answer to a caller who waits, and remembers whether there was one.
template <class T>
Result<T> WriteBehindQueue::noted(Result<T> answer) {
  std::lock_guard lock(mutex_);
  if (answer.ok()) {
    store_answered();
  } else {
    failures_++;
    spdlog::error("{}", answer.error().text);
    if (answer.error().kind != ErrorKind::corrupt) trouble_ = answer.error().text;  // else one session's
  }
  return answer;
}

void WriteBehindQueue::flush() {
  Lock lock(mutex_);
  const int64_t failures = failures_;
  changed_.wait(lock, [&] { return nothing_queued() || failures_ > failures; });
}

// ---- the queue's thread

void WriteBehindQueue::run() {
  Lock lock(mutex_);
  for (int last_tries = 0; last_tries < kLastTries || Clock::now() < give_up_at_;) {
    wait_for_work(lock);
    // In turns: under load there is always another lookup.
    if (!lookups_.empty()) answer_lookups(lock);
    if (!stopping_ && Clock::now() >= sweep_at_) {
      list_again(lock);
      sweep(lock);
    }
    if (nothing_queued()) {
      if (stopping_ && lookups_.empty()) return;
      continue;
    }
    if (stopping_) prepare_last_try(lock, last_tries++);  // else more may be queued while it is under way
    const auto now = stopping_ ? Clock::time_point::max() : Clock::now();
    if (next_try() > now) continue;
    if (erase_queued(lock) && !queued_.empty()) write_queued(lock, now);
  }
}

// Prepares another try: waits if the store has just failed, and makes it try although it has.
void WriteBehindQueue::prepare_last_try(Lock& lock, int tried) {
  lock.unlock();
  if (tried >= kLastTries) std::this_thread::sleep_for(kBetweenLastTries);
  {
    std::lock_guard store_lock(store_mutex_);
    store_->try_at_once();
  }
  lock.lock();
}

// Returns when something that is queued may be tried.
WriteBehindQueue::Clock::time_point WriteBehindQueue::next_try() const {
  auto next = erasures_.empty() ? Clock::time_point::max() : Clock::time_point::min();
  for (const auto& [id, pending] : queued_) next = std::min(next, pending.not_before);
  return std::max(next, retry_at_);
}

// Returns when there is a lookup, when something may be written or swept, or when it is time to stop.
void WriteBehindQueue::wait_for_work(Lock& lock) {
  while (!stopping_ && lookups_.empty()) {
    const auto until = nothing_queued() ? sweep_at_ : std::min(sweep_at_, next_try());
    if (until <= Clock::now()) return;
    changed_.wait_until(lock, until);
  }
}

void WriteBehindQueue::answer_lookups(Lock& lock) {
  const auto lookups = std::exchange(lookups_, {});
  const auto news = news_;
  lock.unlock();
  Status answered;
  for (const auto& lookup : lookups) {
    answer(*lookup);
    if (!lookup->status.ok()) {
      answered = lookup->status;
      const ErrorKind kind = answered.error().kind;
      spdlog::error("session '{}': {}", session_id_of(lookup->id), answered.error().text);
      // Whatever it is with the store or the state, the client cannot mend it.
      if (kind == ErrorKind::io || kind == ErrorKind::corrupt) lookup->status = cannot_tell();
    }
    lookup->answered();
    if (news) news();
  }
  lock.lock();
  if (answered.ok()) return store_answered();
  if (answered.error().kind == ErrorKind::corrupt) return;  // one session's trouble, not the store's
  failures_++;
  trouble_ = answered.error().text;
}

void WriteBehindQueue::answer(SessionLookup& lookup) {
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

// Answers with the stored turn, and with its state if it is newer than `known`.
Status WriteBehindQueue::answer_from_store(SessionLookup& lookup, int64_t known) {
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

// Erases what is queued. Returns false when the store has failed: queued states must then wait.
bool WriteBehindQueue::erase_queued(Lock& lock) {
  while (!erasures_.empty()) {
    const SessionRange range = erasures_.front().range;
    lock.unlock();
    const auto erased = caught([&] {
      std::lock_guard store_lock(store_mutex_);
      return store_->erase(fingerprint_, range.id, range.and_branches);
    });
    lock.lock();
    const StatusCell status = erasures_.front().status;  // others are added only after it
    if (!erased.ok()) {
      store_failed(erased.error());
      retry_at_ = Clock::now() + kRetryAfter;
      for (const Erasure& held_up : erasures_)
        decide(*held_up.status, WriteStatus::kept);  // somebody waits for each
      changed_.notify_all();
      return false;
    }
    erasures_.erase(erasures_.begin());
    decide(*status, WriteStatus::stored);
    changed_.notify_all();
  }
  return true;
}

// Moves what may be tried by `now` to writing_, in the order in which it was put; the lock is held.
std::vector<SessionWrite> WriteBehindQueue::take_due(Clock::time_point now) {
  std::vector<PendingWrites::iterator> due;
  for (auto pending = queued_.begin(); pending != queued_.end(); ++pending) {
    if (pending->second.not_before <= now) due.push_back(pending);
  }
  std::sort(due.begin(), due.end(),
            [](auto one, auto other) { return one->second.number < other->second.number; });
  std::vector<SessionWrite> writes;
  for (const auto& pending : due) {
    writes.push_back({pending->first, pending->second.blob, pending->second.owner});
    writing_.insert(queued_.extract(pending));
  }
  return writes;
}

void WriteBehindQueue::write_queued(Lock& lock, Clock::time_point now) {
  const std::vector<SessionWrite> writes = take_due(now);
  if (writes.empty()) return;
  lock.unlock();
  std::vector<Result<bool>> outcomes;
  const Status done = caught([&]() -> Status {
    std::lock_guard store_lock(store_mutex_);
    outcomes = store_->store(writes);
    return {};
  });
  if (!done.ok()) outcomes = all_failed(writes.size(), done.error());
  lock.lock();
  for (size_t i = 0; i < writes.size(); ++i) tell_status(writes[i].id, outcomes[i]);
  writing_.clear();
  count_waiting();
  const auto failed =
      std::find_if(outcomes.begin(), outcomes.end(), [](const auto& one) { return !one.ok(); });
  if (failed == outcomes.end()) store_answered();
  if (failed != outcomes.end()) store_failed(failed->error());
  const auto news = news_;
  lock.unlock();
  changed_.notify_all();
  if (news) news();
  lock.lock();
}

void WriteBehindQueue::sweep(Lock& lock) {
  lock.unlock();
  const auto gone = caught([&] {
    std::lock_guard store_lock(store_mutex_);
    return store_->sweep(fingerprint_);
  });
  lock.lock();
  // What was removed may be a part of what must go.
  const bool again = gone.ok() && !gone->empty();
  sweep_at_ = again ? Clock::now() : Clock::now() + options_.sweep_every;
  sweep_trouble_ = gone.ok() ? std::string() : gone.error().text;
  if (!gone.ok()) {
    failures_++;
    return spdlog::error("{}", gone.error().text);
  }
  if (nothing_queued()) store_answered();
  if (gone->empty() || !swept_) return;
  const auto swept = swept_;
  lock.unlock();
  swept(*gone);
  lock.lock();
}

// Notes a failure of the store; the lock is held.
void WriteBehindQueue::store_failed(const Error& error) {
  failures_++;
  trouble_ = error.text;
  if (is_away(error)) retry_at_ = Clock::now() + kRetryAfter;
  spdlog::error("{}; {} turns and {} erasures wait in memory", error.text, writing_.size() + queued_.size(),
                erasures_.size());
}

// Notes that the store works; trouble ends once nothing is queued. The lock is held.
void WriteBehindQueue::store_answered() {
  if (nothing_queued()) trouble_.clear();
}

// Sets the status of a write for all who hold its ticket; the lock is held.
void WriteBehindQueue::tell_status(const std::string& id, const Result<bool>& outcome) {
  PendingWrite& pending = writing_.at(id);
  if (!outcome.ok()) {
    decide(*pending.status, WriteStatus::kept);
    pending.not_before = Clock::now() + kRetryAfter;
    if (!erased(id)) queued_.emplace(id, std::move(pending));  // a newer turn queued since wins
  } else if (!*outcome) {
    decide(*pending.status, WriteStatus::refused);
    spdlog::warn("session '{}': turn {} came too late, another worker has committed it", session_id_of(id),
                 pending.blob->turn);
  } else {
    decide(*pending.status, WriteStatus::stored);
  }
}

}  // namespace fulmar
