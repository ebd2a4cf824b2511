#include "cache/session_ladder.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/unix_time.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Error overtaken(const std::string& session) {
  return {ErrorKind::conflict,
          "session '" + session + "' has gone on elsewhere since this turn began; send the turn again"};
}

SessionLadder::SessionLadder(Slots& slots, State state, std::vector<int64_t> device_slots,
                             std::string fingerprint, std::unique_ptr<SessionStore> store,
                             const LadderOptions& options)
    : slots_(slots),
      state_(state),
      free_slots_(std::move(device_slots)),
      fingerprint_(std::move(fingerprint)),
      options_(options) {
  if (store) courier_ = std::make_unique<StoreCourier>(std::move(store), fingerprint_);
}

SessionLadder::~SessionLadder() { flush(); }

SessionLadder::Entry* SessionLadder::find(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  const TurnTicket& ticket = found->second.ticket;
  if (ticket && *ticket == TurnFate::refused) {  // somebody else's turn is the session's, not this one
    drop(id);
    return nullptr;
  }
  return &found->second;
}

bool SessionLadder::contains(const std::string& id) {
  if (find(id) != nullptr) return true;
  if (!courier_) return false;
  const auto turn = courier_->newest_turn(id);
  return turn.ok() && *turn > 0;
}

// A state in host memory, whatever level it lies on.
std::shared_ptr<const StateBlob> SessionLadder::host_copy(const Entry& entry) {
  if (entry.host) return entry.host;
  auto blob = std::make_shared<StateBlob>();
  blob->fingerprint = fingerprint_;
  blob->layout = state_.layout;
  blob->tokens = entry.tokens;
  blob->turn = entry.turn;
  blob->payload.resize(state_.layout.slot_bytes());
  slots_.read_slot(state_, entry.slot, blob->payload);
  return blob;
}

void SessionLadder::touch(Entry& entry, const std::string& id) {
  auto& from = entry.slot >= 0 ? devices_ : hosts_;
  from.erase(entry.recency);
  from.push_front(id);
  entry.recency = from.begin();
}

// A free slot of the first level; the least recent session but `keep` moves down to make room. -1: the level
// is empty.
int64_t SessionLadder::take_device_slot(const std::string& keep) {
  if (free_slots_.empty()) {
    const auto oldest =
        std::find_if(devices_.rbegin(), devices_.rend(), [&](const auto& id) { return id != keep; });
    if (oldest == devices_.rend()) return -1;
    demote_to_host(*oldest);
  }
  const int64_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void SessionLadder::demote_to_host(const std::string& id) {
  const std::string name = id;  // the list node that `id` may live in goes away below
  Entry& entry = entries_.at(name);
  entry.host = host_copy(entry);
  free_slots_.push_back(std::exchange(entry.slot, -1));
  devices_.erase(entry.recency);
  hosts_.push_front(name);
  entry.recency = hosts_.begin();
  trim_host();
}

void SessionLadder::trim_host() {
  while (static_cast<int64_t>(hosts_.size()) > options_.host_capacity) {
    const std::string id = hosts_.back();
    Entry& entry = entries_.at(id);
    if (courier_ && entry.dirty) send(id, entry);  // the courier holds the state until the store has it
    drop(id);
  }
}

void SessionLadder::drop(const std::string& id) {
  const auto found = entries_.find(id);
  Entry& entry = found->second;
  if (entry.slot >= 0) {
    free_slots_.push_back(entry.slot);
    devices_.erase(entry.recency);
  } else {
    hosts_.erase(entry.recency);
  }
  entries_.erase(found);
}

TurnTicket SessionLadder::send(const std::string& id, Entry& entry) {
  entry.dirty = false;
  return entry.ticket = courier_->put({id, host_copy(entry)});
}

void SessionLadder::on_news(std::function<void()> news) {
  if (courier_) courier_->on_news(std::move(news));
}

std::shared_ptr<SessionLookup> SessionLadder::look_up(const std::string& id, bool with_state) {
  auto lookup = std::make_shared<SessionLookup>();
  lookup->id = id;
  const Entry* entry = find(id);
  if (entry != nullptr) lookup->turn = lookup->known_turn = entry->turn;
  if (!courier_ || (entry != nullptr && !courier_->shared())) {
    lookup->done = true;
    return lookup;
  }
  if (!with_state) lookup->known_turn = SessionLookup::kTurnOnly;
  courier_->ask(lookup);
  return lookup;
}

bool SessionLadder::holds(const SessionLookup& lookup) {
  if (lookup.state || lookup.known_turn == 0 || lookup.known_turn == SessionLookup::kTurnOnly) return true;
  const Entry* entry = find(lookup.id);
  return entry != nullptr && entry->turn >= lookup.known_turn;
}

int64_t SessionLadder::newest_turn(const SessionLookup& lookup) {
  const Entry* entry = find(lookup.id);
  return std::max(lookup.turn, entry != nullptr ? entry->turn : 0);
}

// A state in host memory becomes the session's, and the most recent there.
SessionLadder::Entry& SessionLadder::place_on_host(const std::string& id,
                                                   std::shared_ptr<const StateBlob> blob) {
  if (find(id) != nullptr) drop(id);
  hosts_.push_front(id);
  Entry& entry = entries_[id];
  entry.tokens = blob->tokens;
  entry.turn = blob->turn;
  entry.recency = hosts_.begin();
  entry.host = std::move(blob);
  return entry;
}

// What `slot` holds becomes the session's state on the first level. False when that level is empty.
bool SessionLadder::place_on_device(const std::string& id, int64_t slot) {
  Entry* entry = find(id);
  if (entry == nullptr || entry->slot < 0) {
    // Out of its list first: making room must not push this session out below.
    if (entry != nullptr) hosts_.erase(entry->recency);
    const int64_t device_slot = take_device_slot(id);
    if (device_slot < 0) {
      if (entry != nullptr) entry->recency = hosts_.insert(hosts_.begin(), id);
      return false;
    }
    entry = &entries_[id];
    entry->recency = devices_.insert(devices_.begin(), id);
    entry->slot = device_slot;
    entry->host.reset();
  }
  slots_.copy_slot(state_, slot, entry->slot);
  touch(*entry, id);
  return true;
}

Result<std::optional<SessionInfo>> SessionLadder::restore(SessionLookup& lookup, int64_t slot) {
  const std::string& id = lookup.id;
  auto level = SessionInfo::Level::store;
  if (lookup.state && newest_turn(lookup) == lookup.state->turn) {
    FULMAR_ASSIGN(lookup.state->payload, payload_for(*lookup.state, fingerprint_, state_.layout));
    lookup.state->layout = state_.layout;
    place_on_host(id, std::make_shared<StateBlob>(std::move(*lookup.state)));
    lookup.state.reset();
  } else if (const Entry* entry = find(id)) {
    level = entry->slot >= 0 ? SessionInfo::Level::device : SessionInfo::Level::host;
  }
  Entry* entry = find(id);
  if (entry == nullptr) {
    if (!lookup.status.ok()) return lookup.status.error();
    return std::optional<SessionInfo>();
  }
  const SessionInfo found{.id = id, .level = level, .tokens = entry->tokens, .turn = entry->turn};
  if (entry->slot >= 0) {
    slots_.copy_slot(state_, entry->slot, slot);
    touch(*entry, id);
  } else {
    slots_.write_slot(state_, slot, entry->host->payload);
    if (!place_on_device(id, slot)) trim_host();
  }
  return std::optional(found);
}

Result<TurnTicket> SessionLadder::commit(const std::string& id, int64_t slot, int64_t tokens, int64_t turn) {
  const Entry* known = find(id);
  if (known != nullptr && known->turn >= turn) return overtaken(id);
  const bool on_device = place_on_device(id, slot);
  if (!on_device) {
    auto blob = blob_of(tokens, turn);
    blob->payload.resize(state_.layout.slot_bytes());
    slots_.read_slot(state_, slot, blob->payload);
    place_on_host(id, std::move(blob));
  }
  Entry& entry = *find(id);
  entry.tokens = tokens;
  entry.turn = turn;
  TurnTicket ticket = keep(id, entry);
  if (!on_device) trim_host();
  return ticket;
}

// A fresh turn in memory is on its way to the store, sooner or later. The ticket where somebody should wait
// for it.
TurnTicket SessionLadder::keep(const std::string& id, Entry& entry) {
  entry.ticket.reset();
  // The oldest turn that the store lacks sets the time: talking fast must not put it off.
  if (!entry.dirty) entry.committed = Clock::now();
  entry.dirty = courier_ != nullptr;
  return courier_ && courier_->shared() ? send(id, entry) : nullptr;
}

std::shared_ptr<StateBlob> SessionLadder::blob_of(int64_t tokens, int64_t turn) const {
  auto blob = std::make_shared<StateBlob>();
  blob->fingerprint = fingerprint_;
  blob->layout = state_.layout;
  blob->tokens = tokens;
  blob->turn = turn;
  return blob;
}

TurnTicket SessionLadder::import(const std::string& id, std::vector<std::byte> payload, int64_t tokens) {
  const Entry* known = find(id);
  int64_t turn = known != nullptr ? known->turn : 0;
  if (courier_ && (known == nullptr || courier_->shared())) {
    if (const auto stored = courier_->newest_turn(id); stored.ok()) turn = std::max(turn, *stored);
  }
  auto blob = blob_of(tokens, turn + 1);
  blob->payload = std::move(payload);
  TurnTicket ticket = keep(id, place_on_host(id, std::move(blob)));
  trim_host();
  return ticket;
}

Result<std::optional<StateBlob>> SessionLadder::read(const std::string& id) {
  const Entry* entry = find(id);
  if (courier_ && (entry == nullptr || courier_->shared())) {
    auto stored = courier_->load(id);
    if (entry == nullptr || (stored.ok() && stored->has_value() && (*stored)->turn > entry->turn))
      return stored;
  }
  if (entry == nullptr) return std::optional<StateBlob>();
  return std::optional<StateBlob>(*host_copy(*entry));
}

int64_t SessionLadder::erase(const std::string& id, bool and_branches) {
  const std::string branch = id + ":";
  std::vector<std::string> gone;
  for (const auto& [other, entry] : entries_) {
    if (other == id || (and_branches && other.compare(0, branch.size(), branch) == 0)) gone.push_back(other);
  }
  int64_t stored_only = 0;
  if (courier_) {
    courier_->flush();  // what is on its way to the store counts, too
    if (const auto sessions = courier_->list(); sessions.ok()) {
      for (const StoredSession& session : *sessions) {
        const bool concerned =
            session.id == id || (and_branches && session.id.compare(0, branch.size(), branch) == 0);
        if (concerned && find(session.id) == nullptr) stored_only++;
      }
    }
    if (const auto erased = courier_->erase(id, and_branches); !erased.ok())
      spdlog::error("{}", erased.error().text);
  }
  for (const std::string& other : gone) drop(other);
  return static_cast<int64_t>(gone.size()) + stored_only;
}

std::vector<SessionInfo> SessionLadder::list() {
  std::vector<SessionInfo> sessions;
  const double now = unix_time();
  for (const auto* level : {&devices_, &hosts_}) {
    for (const std::string& id : *level) {
      const Entry& entry = entries_.at(id);
      sessions.push_back({.id = id,
                          .level = entry.slot >= 0 ? SessionInfo::Level::device : SessionInfo::Level::host,
                          .tokens = entry.tokens,
                          .turn = entry.turn,
                          .updated = now});
    }
  }
  if (!courier_) return sessions;
  courier_->flush();  // what has just left memory is to be seen in the store
  const auto stored = courier_->list();
  if (!stored.ok()) {
    spdlog::error("{}", stored.error().text);
    return sessions;
  }
  for (const StoredSession& session : *stored) {
    if (find(session.id) != nullptr) continue;
    sessions.push_back(
        {session.id, SessionInfo::Level::store, session.tokens, session.turn, session.updated});
  }
  return sessions;
}

std::optional<Clock::time_point> SessionLadder::tick(Clock::time_point now) {
  std::optional<Clock::time_point> next;
  if (!courier_) return next;
  for (auto& [id, entry] : entries_) {
    if (!entry.dirty) continue;
    // Half the promised time, so that the transaction itself fits into the other half.
    const Clock::time_point due = entry.committed + options_.flush_after / 2;
    if (due <= now) {
      send(id, entry);
    } else if (!next || due < *next) {
      next = due;
    }
  }
  return next;
}

void SessionLadder::flush() {
  if (!courier_) return;
  for (auto& [id, entry] : entries_) {
    if (entry.dirty) send(id, entry);
  }
  courier_->flush();
}

}  // namespace fulmar
