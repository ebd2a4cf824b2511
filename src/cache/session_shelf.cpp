#include "cache/session_shelf.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cache/session_name.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

// Fails (conflict) where a session's state and a request have different adapters.
Status check_adapter(const std::string& id, const std::string& found, const std::string& wanted) {
  if (found == wanted) return {};
  return Error{ErrorKind::conflict, "session '" + session_id_of(id) + "' was computed with " +
                                        adapter_words(found) + "; this request has " + adapter_words(wanted)};
}

}  // namespace

SessionShelf::SessionShelf(StateSlots& device, std::vector<int64_t> slots,
                           std::shared_ptr<SessionLadder> ladder)
    : device_(device), has_slots_(!slots.empty()), ladder_(std::move(ladder)), free_slots_(std::move(slots)) {
  Lock lock(ladder_->mutex_);
  ladder_->shelves_.push_back(this);
}

SessionShelf::~SessionShelf() { leave(); }

void SessionShelf::on_news(std::function<void()> news) {
  Lock lock(ladder_->mutex_);
  news_ = std::move(news);
}

int64_t SessionShelf::count() const {
  Lock lock(ladder_->mutex_);
  return static_cast<int64_t>(recency_.size());
}

int64_t SessionShelf::host_count() const {
  Lock lock(ladder_->mutex_);
  const bool tells = !ladder_->shelves_.empty() && ladder_->shelves_.front() == this;
  return tells ? static_cast<int64_t>(ladder_->hosts_.size()) : 0;
}

int64_t SessionShelf::take_store_failures() {
  Lock lock(ladder_->mutex_);
  if (!ladder_->writes_) return 0;
  const int64_t failures = ladder_->writes_->health().failures;
  return failures - std::exchange(ladder_->reported_failures_, failures);
}

// ---- looking up

std::shared_ptr<SessionLookup> SessionShelf::look_up(const std::string& id, bool with_state) {
  auto lookup = std::make_shared<SessionLookup>();
  lookup->id = id;
  Lock lock(ladder_->mutex_);
  ladder_->watch_lookup(lookup);
  const Entry* entry = ladder_->find(id);
  WriteBehindQueue* writes = ladder_->writes_.get();
  const bool shared = writes != nullptr && writes->shared();
  if (entry != nullptr) lookup->turn = lookup->known_turn = entry->turn;
  if (entry != nullptr && with_state) lookup->state = entry->host;
  if (entry != nullptr && with_state && entry->shelf != nullptr && entry->shelf != this) {
    if (!shared) {
      entry->shelf->wanted_.push_back(lookup);
      if (entry->shelf->news_) entry->shelf->news_();
      return lookup;
    }
    lookup->known_turn = 0;  // a shared store is to be asked anyway, and has it
  }
  if (writes == nullptr || (entry != nullptr && !shared)) {
    lookup->answered();
    return lookup;
  }
  if (!with_state) lookup->known_turn = SessionLookup::kTurnOnly;
  writes->ask(lookup);
  return lookup;
}

bool SessionShelf::holds(SessionLookup& lookup) {
  if (lookup.erased) return false;
  if (lookup.state || lookup.known_turn == 0 || lookup.known_turn == SessionLookup::kTurnOnly) return true;
  Lock lock(ladder_->mutex_);
  const Entry* entry = ladder_->find(lookup.id);
  if (entry == nullptr || entry->turn < lookup.known_turn) return false;
  lookup.state = entry->host;  // wherever the session moves from now on
  return entry->shelf == this || lookup.state;
}

int64_t SessionShelf::newest_turn(const SessionLookup& lookup) {
  Lock lock(ladder_->mutex_);
  const Entry* entry = ladder_->find(lookup.id);
  return std::max(lookup.turn, entry != nullptr ? entry->turn : 0);
}

// ---- into the slots of rows and back

Result<std::optional<SessionInfo>> SessionShelf::restore(SessionLookup& lookup, int64_t slot,
                                                         const std::string& adapter) {
  Lock lock(ladder_->mutex_);
  const std::string& id = lookup.id;
  Entry* entry = ladder_->find(id);
  if (lookup.state || entry != nullptr) {
    const std::string owner = entry != nullptr ? entry->owner : session_name(id).owner;
    make_room(lock, id, owner);
    entry = ladder_->find(id);
  }
  const auto blob = std::exchange(lookup.state, nullptr);
  if (entry == nullptr && !blob) {
    if (!lookup.status.ok()) return lookup.status.error();
    return std::optional<SessionInfo>();
  }
  const bool newer = blob && (entry == nullptr || blob->turn > entry->turn);
  FULMAR_TRY(check_adapter(id, newer ? blob->adapter : entry->adapter, adapter));
  auto level = SessionInfo::Level::host;
  if (entry == nullptr || (blob && blob->turn > entry->turn)) {
    FULMAR_ASSIGN(auto fitting, in_layout(blob));
    entry = &ladder_->place_on_host(id, std::move(fitting));
    level = SessionInfo::Level::store;
  } else if (entry->shelf == this) {
    level = SessionInfo::Level::device;
  } else if (entry->shelf != nullptr) {
    if (!blob)
      return Error{ErrorKind::unavailable, "session '" + session_id_of(id) + "' is on its way; try again"};
    if (blob->turn < entry->turn) {  // gone on while this row, which only reads it, was about to start
      FULMAR_TRY(check_adapter(id, blob->adapter, adapter));
      FULMAR_ASSIGN(const auto fitting, in_layout(blob));
      device_.write(slot, fitting->payload);
      return std::optional(
          SessionInfo{.id = id, .level = level, .tokens = fitting->tokens, .turn = fitting->turn});
    }
    ladder_->take_down(*entry, blob);
  }
  const SessionInfo found{.id = id, .level = level, .tokens = entry->tokens, .turn = entry->turn};
  if (entry->shelf == this) {
    device_.copy(entry->slot, slot);
    ladder_->touch(*entry);
  } else {
    FULMAR_ASSIGN(const auto fitting, in_layout(entry->host));
    device_.write(slot, fitting->payload);
    place(id, slot);
  }
  ladder_->trim_host();
  return std::optional(found);
}

// Converts the state to the layout of this engine's slots.
Result<std::shared_ptr<const StateBlob>> SessionShelf::in_layout(
    std::shared_ptr<const StateBlob> blob) const {
  if (blob->layout == device_.layout() && blob->fingerprint == ladder_->fingerprint_) return blob;
  FULMAR_ASSIGN(auto payload, payload_for(*blob, ladder_->fingerprint_, device_.layout()));
  auto fitting = std::make_shared<StateBlob>();
  *fitting = {.fingerprint = blob->fingerprint,
              .adapter = blob->adapter,
              .layout = device_.layout(),
              .tokens = blob->tokens,
              .turn = blob->turn,
              .payload = std::move(payload)};
  return std::shared_ptr<const StateBlob>(std::move(fitting));
}

Result<WriteTicket> SessionShelf::commit(const SessionClaim& claim, int64_t slot, const Made& made) {
  const std::string& id = claim.id;
  // What goes to host memory or to the store at once is read first.
  std::shared_ptr<const StateBlob> state;
  if (!has_slots_ || ladder_->sends_at_once()) state = read(slot, made);
  Lock lock(ladder_->mutex_);
  make_room(lock, id, claim.owner);
  if (claim.erased) return WriteTicket();
  const Entry* known = ladder_->find(id);
  if (known != nullptr && known->turn >= made.turn) return overtaken(id);
  if (known != nullptr && known->shelf != nullptr && known->shelf != this) ladder_->drop(id);
  if (!place(id, slot)) ladder_->place_on_host(id, state);
  Entry& entry = ladder_->entries_.at(id);
  entry.owner = claim.owner;
  entry.adapter = made.adapter;
  entry.tokens = made.tokens;
  entry.turn = made.turn;
  WriteTicket ticket = keep(id, entry, state);
  ladder_->trim_host();
  return ticket;
}

// Keeps like the ladder's, for a session on the shelf with its state given; host memory does not hold the
// state afterwards.
WriteTicket SessionShelf::keep(const std::string& id, Entry& entry, std::shared_ptr<const StateBlob> state) {
  if (entry.shelf == nullptr) return ladder_->keep(id, entry);
  entry.host = std::move(state);
  WriteTicket ticket = ladder_->keep(id, entry);
  entry.host.reset();
  return ticket;
}

// Makes the content of `slot` the session's state on this shelf, after make_room(); the session must not be
// on another one. Returns false when the shelf has no slots.
bool SessionShelf::place(const std::string& id, int64_t slot) {
  if (!has_slots_) return false;
  const auto found = ladder_->entries_.find(id);
  Entry* entry = found == ladder_->entries_.end() ? nullptr : &found->second;
  if (entry == nullptr || entry->shelf != this) {
    if (entry == nullptr) {
      recency_.push_front(id);
      entry = &ladder_->entries_[id];
      entry->recency = recency_.begin();
    } else {
      recency_.splice(recency_.begin(), ladder_->hosts_, entry->recency);
    }
    entry->shelf = this;
    entry->slot = free_slots_.back();
    free_slots_.pop_back();
    entry->host.reset();
  }
  device_.copy(slot, entry->slot);
  ladder_->touch(*entry);
  return true;
}

// Ensures that place() finds a slot for the session: moves another one down where none is free. Only this
// thread takes slots, so the slot stays free until then.
void SessionShelf::make_room(Lock& lock, const std::string& id, const std::string& owner) {
  if (!has_slots_) return;
  while (free_slots_.empty()) {
    const Entry* own = ladder_->find(id);
    if (own != nullptr && own->shelf == this) return;
    const std::string& leaving = ladder_->choose_victim(recency_, &owner);
    Read read = read_of(leaving, ladder_->entries_.at(leaving));
    // Host memory is trimmed by the caller: what it is about to take from there must not go meanwhile.
    if (Entry* entry = read_unlocked(lock, read)) ladder_->take_down(*entry, std::move(read.state));
  }
}

// Returns the session read, or null where it has changed.
SessionLadder::Entry* SessionShelf::still_here(const Read& read) const {
  Entry* entry = ladder_->find(read.id);
  const bool same = entry != nullptr && entry->shelf == this && entry->slot == read.slot;
  return same && entry->turn == read.made.turn ? entry : nullptr;
}

SessionLadder::Entry* SessionShelf::read_unlocked(Lock& lock, Read& wanted) const {
  lock.unlock();
  wanted.state = read(wanted.slot, wanted.made);
  lock.lock();
  return still_here(wanted);
}

std::shared_ptr<const StateBlob> SessionShelf::read(int64_t slot, const Made& made) const {
  auto blob = std::make_shared<StateBlob>();
  *blob = {.fingerprint = ladder_->fingerprint_,
           .adapter = made.adapter,
           .layout = device_.layout(),
           .tokens = made.tokens,
           .turn = made.turn};
  blob->payload.resize(device_.layout().slot_bytes());
  device_.read(slot, blob->payload);
  return blob;
}

// ---- between steps

void SessionShelf::serve() {
  Lock lock(ladder_->mutex_);
  answer_wanted(lock);
}

void SessionShelf::answer_wanted(Lock& lock) {
  const auto wanted = std::exchange(wanted_, {});
  for (const auto& lookup : wanted) {
    Entry* entry = ladder_->find(lookup->id);
    if (entry != nullptr && entry->shelf == this) {
      Read read = read_of(lookup->id, *entry);
      if (read_unlocked(lock, read) != nullptr) lookup->state = std::move(read.state);
      entry = ladder_->find(lookup->id);
    }
    if (!lookup->state && entry != nullptr) lookup->state = entry->host;
    lookup->answered();
  }
  if (!wanted.empty()) ladder_->wake_all();
}

std::optional<Clock::time_point> SessionShelf::tick(Clock::time_point now) {
  std::optional<Clock::time_point> next;
  if (!ladder_->writes_) return next;
  std::vector<Read> due_here;
  Lock lock(ladder_->mutex_);
  for (auto& [id, entry] : ladder_->entries_) {
    if (!entry.dirty || (entry.shelf != nullptr && entry.shelf != this)) continue;
    // Half the promised time, so that the transaction itself fits into the other half.
    const Clock::time_point due = entry.committed + ladder_->options_.flush_after / 2;
    if (due > now) {
      next = std::min(next.value_or(due), due);
    } else if (entry.shelf == this) {
      due_here.push_back(read_of(id, entry));
    } else {
      ladder_->send(id, entry);
    }
  }
  for (Read& read : due_here) {
    Entry* entry = read_unlocked(lock, read);
    if (entry == nullptr || !entry->dirty) continue;
    entry->host = std::move(read.state);
    ladder_->send(read.id, *entry);
    entry->host.reset();
  }
  return next;
}

// Leaves the ladder; other engines see this one's sessions until the last one has moved down.
void SessionShelf::leave() {
  Lock lock(ladder_->mutex_);
  while (!recency_.empty()) {
    Read last = read_of(recency_.back(), ladder_->entries_.at(recency_.back()));
    if (Entry* entry = read_unlocked(lock, last)) ladder_->take_down(*entry, std::move(last.state));
  }
  std::erase(ladder_->shelves_, this);
  answer_wanted(lock);
}

void SessionShelf::abandon() {
  Lock lock(ladder_->mutex_);
  std::erase(ladder_->shelves_, this);
  while (!recency_.empty()) {
    const std::string id = recency_.back();
    const Entry& entry = ladder_->entries_.at(id);
    if (entry.dirty) {
      ladder_->lost_++;
      spdlog::error("session '{}': turn {} was on the device and is lost", session_id_of(id), entry.turn);
    }
    ladder_->drop(id);
  }
  answer_wanted(lock);
}

}  // namespace fulmar
