#include "cache/session_ladder.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/unix_time.h"
#include "cache/fair_eviction.h"
#include "cache/session_name.h"
#include "cache/session_shelf.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReadTries = 8;

Error in_use(const std::string& session) {
  return {ErrorKind::conflict, "session '" + session_id_of(session) + "' is in use by a running request"};
}

// Adds a weak reference to something that others own. Expired ones are removed before the list would
// grow.
template <class T>
void watch(std::vector<std::weak_ptr<T>>& list, const std::shared_ptr<T>& one) {
  if (list.size() == list.capacity()) {
    std::erase_if(list, [](const std::weak_ptr<T>& other) { return other.expired(); });
  }
  list.push_back(one);
}

template <class T>
void mark_erased(const std::vector<std::weak_ptr<T>>& list, const SessionRange& range) {
  for (const std::weak_ptr<T>& watched : list) {
    const auto one = watched.lock();
    if (one && range.covers(one->id)) one->erased = true;
  }
}

}  // namespace

Error overtaken(const std::string& session) {
  return {ErrorKind::conflict, "session '" + session_id_of(session) +
                                   "' has gone on elsewhere since this turn began; send the turn again"};
}

SessionLadder::SessionLadder(std::string fingerprint, std::unique_ptr<SessionStore> store,
                             LadderOptions options)
    : fingerprint_(std::move(fingerprint)), options_(std::move(options)) {
  if (!store) return;
  writes_ = std::make_unique<WriteBehindQueue>(std::move(store), fingerprint_, options_.store);
  writes_->on_sweep([this](const std::vector<StoredSession>& gone) { forget_swept(gone); });
  writes_->on_news([this] {
    Lock lock(mutex_);
    wake_all();
  });
}

SessionLadder::~SessionLadder() {
  if (!writes_) return;
  for (auto& [id, entry] : entries_) {
    if (entry.dirty) send(id, entry);
  }
  const int64_t lost = lost_ + writes_->close();
  if (lost == 0) return;
  spdlog::error("session store: {} turns, erasures or sessions could not be stored and are lost", lost);
  if (options_.on_lost) options_.on_lost(lost);
}

// ---- claims

SessionClaimPtr SessionLadder::claim(const std::string& id) { return claim(id, session_name(id).owner); }

SessionClaimPtr SessionLadder::claim(const std::string& id, const std::string& owner) {
  Lock lock(mutex_);
  SessionClaimPtr& held = held_[id];
  if (held) return nullptr;
  held = std::make_shared<SessionClaim>();
  held->id = id;
  held->owner = owner;
  watch(claims_, held);
  return held;
}

void SessionLadder::release(SessionClaimPtr claim) {
  if (!claim) return;
  Lock lock(mutex_);
  const auto found = held_.find(claim->id);
  if (found == held_.end() || found->second != claim) return;  // the session was erased
  held_.erase(found);
  wake_all();
}

Result<SessionClaimPtr> SessionLadder::reclaim(const SessionClaim& before, int64_t turn) {
  if (before.erased) return SessionClaimPtr();
  SessionClaimPtr held = claim(before.id, before.owner);
  if (!held) return in_use(before.id);
  const auto newest = newest_turn(before.id);
  if (newest.ok() && *newest == turn) return held;
  release(std::move(held));
  if (!newest.ok()) return newest.error();
  return Error{ErrorKind::conflict, "session '" + session_id_of(before.id) +
                                        "' has gone on since this turn was paused: its turns are " +
                                        std::to_string(*newest) + ", they were " + std::to_string(turn)};
}

// ---- any thread

// Returns the newest turn. Blocks on the store if it is not known in memory.
Result<int64_t> SessionLadder::newest_turn(const std::string& id) {
  int64_t known = 0;
  {
    Lock lock(mutex_);
    const Entry* entry = find(id);
    if (entry != nullptr) known = entry->turn;
    if (!writes_ || (entry != nullptr && !writes_->shared())) return known;
  }
  const auto stored = writes_->newest_turn(id);
  if (!stored.ok()) return Error{ErrorKind::unavailable, stored.error().text};
  return std::max(known, *stored);
}

Status SessionLadder::takes_more() const {
  if (!writes_ || !writes_->full()) return {};
  return Error{ErrorKind::resource,
               "the session store does not keep up and as many turns wait for it as may; try again later"};
}

Result<WriteTicket> SessionLadder::import(const std::string& id, std::vector<std::byte> payload,
                                          const StateLayout& layout, int64_t tokens,
                                          const std::string& adapter) {
  FULMAR_TRY(takes_more());
  SessionClaimPtr held = claim(id);
  if (!held) return in_use(id);
  const auto newest = newest_turn(id);
  WriteTicket ticket;
  if (newest.ok()) {
    auto blob = std::make_shared<StateBlob>();
    *blob = {.fingerprint = fingerprint_,
             .adapter = adapter,
             .layout = layout,
             .tokens = tokens,
             .turn = *newest + 1,
             .payload = std::move(payload)};
    Lock lock(mutex_);
    if (!held->erased) ticket = keep(id, place_on_host(id, std::move(blob)));
    trim_host();
  }
  release(std::move(held));
  if (!newest.ok()) return newest.error();
  return ticket;
}

Result<std::shared_ptr<const StateBlob>> SessionLadder::read(const std::string& id) {
  std::shared_ptr<const StateBlob> ours;
  for (int i = 0; i < kReadTries && !ours; i++) {  // it may move on between question and answer
    auto wanted = std::make_shared<SessionLookup>();
    wanted->id = id;
    {
      Lock lock(mutex_);
      const Entry* entry = find(id);
      if (entry == nullptr) break;
      ours = entry->host;
      if (ours) break;
      entry->shelf->wanted_.push_back(wanted);
      if (entry->shelf->news_) entry->shelf->news_();
    }
    wanted->done.wait(false);
    ours = wanted->state;
  }
  if (!writes_ || (ours && !writes_->shared())) return ours;
  auto stored = writes_->load(id);
  if (!ours) return stored;
  const bool newer = stored.ok() && *stored && (*stored)->turn > ours->turn;
  return newer ? std::move(*stored) : ours;
}

// Looks at memory before the store, and once more after it: wherever a session moves meanwhile, one of the
// looks finds it.
Result<int64_t> SessionLadder::erase(const SessionRange& range) {
  Lock lock(mutex_);
  std::set<std::string> gone = in_memory(range);
  if (writes_) {
    lock.unlock();
    // Of all ids that begin with it, its own comes first.
    FULMAR_ASSIGN(std::vector<StoredSession> stored, writes_->list({.prefix = range.id, .limit = 1}));
    if (range.and_branches) {
      FULMAR_ASSIGN(const auto branches, writes_->list({.prefix = range.id + ":"}));
      stored.insert(stored.end(), branches.begin(), branches.end());
    }
    for (const StoredSession& one : stored) {
      if (range.covers(one.id)) gone.insert(one.id);
    }
    lock.lock();
    gone.merge(in_memory(range));
  }
  const WriteTicket ticket = writes_ ? writes_->erase(range) : nullptr;
  forget(range);
  lock.unlock();
  if (ticket) ticket->wait(WriteStatus::under_way);
  if (ticket && *ticket == WriteStatus::kept) {
    return Error{ErrorKind::unavailable, "the session store has not erased yet what it was told to"};
  }
  return static_cast<int64_t>(gone.size());
}

int64_t SessionLadder::erase_soon(const SessionRange& range) {
  Lock lock(mutex_);
  const auto gone = static_cast<int64_t>(in_memory(range).size());
  if (writes_) writes_->erase(range);
  forget(range);
  return gone;
}

// Looks at memory first: what leaves it meanwhile is then found on its way to the store.
Result<std::vector<SessionInfo>> SessionLadder::list(const SessionQuery& query) {
  std::map<std::string, SessionInfo> sessions;
  const double now = unix_time();
  {
    Lock lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (!query.covers(id)) continue;
      const auto level = entry.shelf != nullptr ? SessionInfo::Level::device : SessionInfo::Level::host;
      sessions[id] = {.id = id, .level = level, .tokens = entry.tokens, .turn = entry.turn, .updated = now};
    }
  }
  if (writes_) {
    FULMAR_ASSIGN(const auto stored, writes_->list(query));
    for (const StoredSession& one : stored) {
      sessions.try_emplace(
          one.id, SessionInfo{.id = one.id, .tokens = one.tokens, .turn = one.turn, .updated = one.updated});
    }
  }
  std::vector<SessionInfo> page;
  for (auto& [id, session] : sessions) {
    if (static_cast<int64_t>(page.size()) == query.limit) break;
    page.push_back(std::move(session));
  }
  return page;
}

Result<bool> SessionLadder::contains(const std::string& id) {
  {
    Lock lock(mutex_);
    if (find(id) != nullptr) return true;
  }
  if (!writes_) return false;
  FULMAR_ASSIGN(const int64_t turn, writes_->newest_turn(id));
  return turn > 0;
}

void SessionLadder::flush() {
  if (!writes_) return;
  {
    Lock lock(mutex_);
    for (auto& [id, entry] : entries_) {
      if (entry.dirty && entry.host) send(id, entry);
    }
  }
  writes_->flush();
}

// ---- under the lock

SessionLadder::Entry* SessionLadder::find(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  const WriteTicket& ticket = found->second.ticket;
  if (ticket && *ticket == WriteStatus::refused) {  // somebody else's turn is the session's, not this one
    drop(id);
    return nullptr;
  }
  return &found->second;
}

std::list<std::string>& SessionLadder::list_of(const Entry& entry) {
  return entry.shelf != nullptr ? entry.shelf->recency_ : hosts_;
}

void SessionLadder::touch(Entry& entry) {
  std::list<std::string>& list = list_of(entry);
  list.splice(list.begin(), list, entry.recency);
}

// Makes a state in host memory the session's state, and the most recent there.
SessionLadder::Entry& SessionLadder::place_on_host(const std::string& id,
                                                   std::shared_ptr<const StateBlob> blob) {
  const auto known = entries_.find(id);
  std::string owner = known == entries_.end() ? session_name(id).owner : known->second.owner;
  drop(id);
  hosts_.push_front(id);
  Entry& entry = entries_[id];
  entry.owner = std::move(owner);
  entry.adapter = blob->adapter;
  entry.tokens = blob->tokens;
  entry.turn = blob->turn;
  entry.recency = hosts_.begin();
  entry.host = std::move(blob);
  return entry;
}

// Moves a session from its shelf to host memory, as the most recent there; `copy` is the slot's content.
void SessionLadder::take_down(Entry& entry, std::shared_ptr<const StateBlob> copy) {
  SessionShelf& shelf = *entry.shelf;
  hosts_.splice(hosts_.begin(), shelf.recency_, entry.recency);
  shelf.free_slots_.push_back(std::exchange(entry.slot, -1));
  entry.shelf = nullptr;
  entry.host = std::move(copy);
}

// Returns the session to evict from a tier of at least one, most recent first in the list. `newcomer`: the
// owner of one about to join. With a store only age counts, since the store still has what is evicted.
const std::string& SessionLadder::choose_victim(const std::list<std::string>& level,
                                                const std::string* newcomer) const {
  if (writes_) return level.back();
  std::vector<KeptThing> oldest_first;
  oldest_first.reserve(level.size());
  for (auto id = level.rbegin(); id != level.rend(); ++id) {
    const Entry& entry = entries_.at(*id);
    const size_t size = entry.host ? entry.host->payload.size() : 1;  // slots of a shelf are alike
    oldest_first.push_back({.owner = entry.owner, .size = static_cast<int64_t>(size)});
  }
  // It is not the one that goes: no owner holds less than it.
  if (newcomer != nullptr) oldest_first.push_back({.owner = *newcomer, .size = 1});
  return *std::next(level.rbegin(), static_cast<ptrdiff_t>(victim_of(oldest_first)));
}

void SessionLadder::trim_host() {
  while (static_cast<int64_t>(hosts_.size()) > options_.host_capacity) {
    const std::string id = choose_victim(hosts_);
    Entry& entry = entries_.at(id);
    if (writes_ && entry.dirty) send(id, entry);  // the queue holds the state until the store has it
    drop(id);
  }
}

void SessionLadder::drop(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.shelf != nullptr) entry.shelf->free_slots_.push_back(entry.slot);
  const auto recency = entry.recency;
  std::list<std::string>& list = list_of(entry);
  entries_.erase(found);
  list.erase(recency);  // last: `id` may live there
}

// Sends a state in host memory to the store; one on a shelf is read by its engine first, without the lock.
WriteTicket SessionLadder::send(const std::string& id, Entry& entry) {
  FULMAR_CHECK(entry.host != nullptr);
  entry.dirty = false;
  return entry.ticket = writes_->put({id, entry.host, entry.owner});
}

// Notes that the store lacks a fresh turn, to be sent now or later. Returns the ticket where a row should
// wait for it.
WriteTicket SessionLadder::keep(const std::string& id, Entry& entry) {
  entry.ticket.reset();
  // The oldest turn that the store lacks sets the time: talking fast must not put it off.
  if (!entry.dirty) entry.committed = Clock::now();
  entry.dirty = writes_ != nullptr;
  return sends_at_once() ? send(id, entry) : nullptr;
}

// Returns the sessions in memory, and those whose first turn is running or paused.
std::set<std::string> SessionLadder::in_memory(const SessionRange& range) const {
  std::set<std::string> sessions;
  for (const auto& [id, entry] : entries_) {
    if (range.covers(id)) sessions.insert(id);
  }
  for (const auto& watched : claims_) {
    const SessionClaimPtr claim = watched.lock();
    if (claim && !claim->erased && range.covers(claim->id)) sessions.insert(claim->id);
  }
  return sessions;
}

// Drops the sessions from memory, and invalidates claims and lookups.
void SessionLadder::forget(const SessionRange& range) {
  mark_erased(claims_, range);
  mark_erased(lookups_, range);
  std::erase_if(held_, [&](const auto& held) { return range.covers(held.first); });
  std::vector<std::string> gone;
  for (const auto& [id, entry] : entries_) {
    if (range.covers(id)) gone.push_back(id);
  }
  for (const std::string& id : gone) drop(id);
  wake_all();
}

// Drops from memory what the store has erased for its age, unless a row is about to continue it.
void SessionLadder::forget_swept(const std::vector<StoredSession>& gone) {
  Lock lock(mutex_);
  for (const StoredSession& session : gone) {
    const auto found = entries_.find(session.id);
    if (found == entries_.end() || held_.contains(session.id)) continue;
    if (!found->second.dirty && found->second.turn == session.turn) drop(session.id);
  }
}

void SessionLadder::wake_all() {
  for (const SessionShelf* shelf : shelves_) {
    if (shelf->news_) shelf->news_();
  }
}

void SessionLadder::watch_lookup(const std::shared_ptr<SessionLookup>& lookup) { watch(lookups_, lookup); }

}  // namespace fulmar
