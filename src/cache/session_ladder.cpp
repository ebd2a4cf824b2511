#include "cache/session_ladder.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/unix_time.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

SessionLadder::SessionLadder(Ops& ops, State state, std::vector<int64_t> device_slots,
                             std::string fingerprint, std::unique_ptr<SessionStore> store,
                             const LadderOptions& options)
    : ops_(ops),
      state_(state),
      free_slots_(std::move(device_slots)),
      fingerprint_(std::move(fingerprint)),
      options_(options) {
  if (store) writer_ = std::make_unique<StoreWriter>(std::move(store), fingerprint_);
}

SessionLadder::~SessionLadder() { flush(); }

SessionLadder::Entry* SessionLadder::find(const std::string& id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

bool SessionLadder::contains(const std::string& id) {
  if (find(id) != nullptr) return true;
  if (!writer_) return false;
  const auto loaded = writer_->load(id);
  return loaded.ok() && loaded->has_value();
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
  ops_.read_slot(state_, entry.slot, blob->payload);
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
    if (writer_ && entry.dirty) send(id, entry);  // the writer holds the state until the store has it
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

void SessionLadder::send(const std::string& id, Entry& entry) {
  writer_->put({id, host_copy(entry)});
  entry.dirty = false;
}

void SessionLadder::forget_if_overtaken(const std::string& id) {
  const Entry* entry = find(id);
  if (entry == nullptr || !writer_) return;
  const auto stored =
      writer_->newest_turn(id);  // when the store does not answer, our copy is the best there is
  if (stored.ok() && *stored > entry->turn) drop(id);
}

Result<std::optional<SessionInfo>> SessionLadder::restore(const std::string& id, int64_t slot) {
  forget_if_overtaken(id);
  Entry* entry = find(id);
  auto level = SessionInfo::Level::store;
  if (entry != nullptr) level = entry->slot >= 0 ? SessionInfo::Level::device : SessionInfo::Level::host;
  if (entry == nullptr) {
    if (!writer_) return std::optional<SessionInfo>();
    FULMAR_ASSIGN(std::optional<StateBlob> stored, writer_->load(id));
    if (!stored) return std::optional<SessionInfo>();
    FULMAR_ASSIGN(stored->payload, payload_for(*stored, fingerprint_, state_.layout));
    stored->layout = state_.layout;
    Entry fresh{.tokens = stored->tokens, .turn = stored->turn};
    fresh.host = std::make_shared<StateBlob>(std::move(*stored));
    hosts_.push_front(id);
    fresh.recency = hosts_.begin();
    entry = &entries_.emplace(id, std::move(fresh)).first->second;
  }
  const SessionInfo found{.id = id, .level = level, .tokens = entry->tokens, .turn = entry->turn};
  if (entry->slot >= 0) {
    ops_.copy_slot(state_, entry->slot, slot);
    touch(*entry, id);
    return std::optional(found);
  }
  ops_.write_slot(state_, slot, entry->host->payload);
  hosts_.erase(entry->recency);  // out of the list first: making room above must not push this one out below
  const int64_t device_slot = take_device_slot(id);
  if (device_slot >= 0) {
    ops_.copy_slot(state_, slot, device_slot);
    devices_.push_front(id);
    entry->recency = devices_.begin();
    entry->slot = device_slot;
    entry->host.reset();
  } else {
    hosts_.push_front(id);
    entry->recency = hosts_.begin();
    trim_host();
  }
  return std::optional(found);
}

// Turns only grow, also for a session that left memory since it was read.
int64_t SessionLadder::next_turn(const std::string& id) {
  if (const Entry* entry = find(id)) return entry->turn + 1;
  if (!writer_) return 1;
  const auto stored = writer_->load(id);
  return stored.ok() && stored->has_value() ? (*stored)->turn + 1 : 1;
}

void SessionLadder::commit(const std::string& id, int64_t slot, int64_t tokens) {
  const int64_t turn = next_turn(id);
  Entry* entry = find(id);
  if (entry == nullptr || entry->slot < 0) {
    const int64_t device_slot = take_device_slot(id);
    if (device_slot < 0) {
      std::vector<std::byte> payload(state_.layout.slot_bytes());
      ops_.read_slot(state_, slot, payload);
      return commit(id, std::move(payload), tokens);
    }
    entry = find(id);
    if (entry != nullptr) {
      hosts_.erase(entry->recency);
    } else {
      entry = &entries_[id];
    }
    devices_.push_front(id);
    entry->recency = devices_.begin();
    entry->slot = device_slot;
    entry->host.reset();
  }
  ops_.copy_slot(state_, slot, entry->slot);
  entry->tokens = tokens;
  entry->turn = turn;
  entry->committed = Clock::now();
  entry->dirty = writer_ != nullptr;
  touch(*entry, id);
}

void SessionLadder::commit(const std::string& id, std::vector<std::byte> payload, int64_t tokens) {
  auto blob = std::make_shared<StateBlob>();
  blob->fingerprint = fingerprint_;
  blob->layout = state_.layout;
  blob->tokens = tokens;
  blob->turn = next_turn(id);
  blob->payload = std::move(payload);
  if (find(id) != nullptr) drop(id);
  hosts_.push_front(id);
  entries_[id] = Entry{.host = blob,
                       .tokens = tokens,
                       .turn = blob->turn,
                       .dirty = writer_ != nullptr,
                       .committed = Clock::now(),
                       .recency = hosts_.begin()};
  trim_host();
}

Result<std::optional<StateBlob>> SessionLadder::read(const std::string& id) {
  if (const Entry* entry = find(id)) return std::optional<StateBlob>(*host_copy(*entry));
  if (!writer_) return std::optional<StateBlob>();
  return writer_->load(id);
}

int64_t SessionLadder::erase(const std::string& id, bool and_branches) {
  const std::string branch = id + ":";
  std::vector<std::string> gone;
  for (const auto& [other, entry] : entries_) {
    if (other == id || (and_branches && other.compare(0, branch.size(), branch) == 0)) gone.push_back(other);
  }
  int64_t stored_only = 0;
  if (writer_) {
    writer_->flush();  // what is on its way to the store counts, too
    if (const auto sessions = writer_->list(); sessions.ok()) {
      for (const StoredSession& session : *sessions) {
        const bool concerned =
            session.id == id || (and_branches && session.id.compare(0, branch.size(), branch) == 0);
        if (concerned && find(session.id) == nullptr) stored_only++;
      }
    }
    if (const auto erased = writer_->erase(id, and_branches); !erased.ok())
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
  if (!writer_) return sessions;
  writer_->flush();  // what has just left memory is to be seen in the store
  const auto stored = writer_->list();
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
  if (!writer_) return next;
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
  if (!writer_) return;
  for (auto& [id, entry] : entries_) {
    if (entry.dirty) send(id, entry);
  }
  writer_->flush();
}

}  // namespace fulmar
