#include "cache/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace fulmar {

namespace {

// Distances from the end of a prompt, and the interval of the coarse points.
constexpr size_t kNear = 32, kFar = 256, kInterval = 1024;

// Copies to the host that may follow each other at once, in seconds of their rate: running streams wait.
constexpr double kBurst = 0.08;

}  // namespace

std::vector<size_t> snapshot_points(size_t length, size_t covered, size_t shared) {
  std::vector<size_t> points;
  const auto want = [&](size_t point) {
    if (point > covered + kNear / 2 && point < length) points.push_back(point);
  };
  for (size_t point = kInterval; point + kFar < length; point += kInterval) want(point);
  if (length > kFar) want(length - kFar);
  if (shared > covered) want(shared);
  if (length > kNear) want(length - kNear);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

PrefixCache::PrefixCache(StateSlots& slots, std::vector<int64_t> device_slots,
                         const PrefixCacheOptions& options)
    : slots_(slots),
      options_(options),
      free_slots_(std::move(device_slots)),
      most_met_(free_slots_.size() / 2),
      host_allowance_(static_cast<double>(options.host_bytes_per_second)),
      allowance_at_(std::chrono::steady_clock::now()) {}

PrefixCache::Lookup PrefixCache::look(const PrefixRoot& root, std::span<const int32_t> tokens) const {
  const auto index = index_.find(root);
  if (index == index_.end() || tokens.empty()) return {};
  const auto found = index->second.find(tokens, tokens.size() - 1);
  return {found.match ? found.match->length : 0, found.shared};
}

size_t PrefixCache::restore(const PrefixRoot& root, std::span<const int32_t> tokens, int64_t slot) {
  const auto index = index_.find(root);
  std::optional<PrefixIndex::Match> match;
  if (index != index_.end() && !tokens.empty()) match = index->second.find(tokens, tokens.size() - 1).match;
  if (!match) {
    counters_.misses++;
    return 0;
  }
  Snapshot& snapshot = snapshots_.at(match->id);
  if (snapshot.slot >= 0) {
    slots_.copy(snapshot.slot, slot);
    counters_.device_hits++;
  } else {
    slots_.write(slot, snapshot.host);
    counters_.host_hits++;
  }
  Recency& from = list_of(snapshot);
  snapshot.met = true;
  Recency& to = list_of(snapshot);
  to.splice(to.begin(), from, snapshot.recency);
  return match->length;
}

void PrefixCache::save(const PrefixRoot& root, std::span<const int32_t> tokens, int64_t slot) {
  if (tokens.size() < options_.least_tokens) return;
  if (const auto index = index_.find(root); index != index_.end()) {
    const auto found = index->second.find(tokens, tokens.size());
    if (found.match && found.match->length == tokens.size()) return touch(found.match->id);
  }
  const std::optional<int64_t> place = take_slot();
  const PrefixIndex::Id id = next_id_++;
  Snapshot snapshot{.root = root};
  if (place) {
    snapshot.slot = *place;
    slots_.copy(slot, *place);
    fresh_.push_front(id);
    snapshot.recency = fresh_.begin();
    counters_.device_entries++;
  } else {
    const size_t bytes = slots_.layout().slot_bytes();
    if (!may_copy_to_host(bytes)) return;
    snapshot.host = copy_to_host(slot);
    hosts_.push_front(id);
    snapshot.recency = hosts_.begin();
    counters_.host_entries++;
    counters_.host_bytes += bytes;
  }
  index_[root].insert(tokens, id);
  snapshots_.emplace(id, std::move(snapshot));
}

std::vector<std::byte> PrefixCache::copy_to_host(int64_t slot) {
  std::vector<std::byte> host = std::exchange(spare_, {});
  host.resize(slots_.layout().slot_bytes());
  slots_.read(slot, host);
  return host;
}

void PrefixCache::prepare() {
  const size_t bytes = slots_.layout().slot_bytes();
  const bool copies_next = free_slots_.empty() && counters_.host_bytes + bytes <= options_.host_bytes;
  if (copies_next && spare_.size() != bytes) spare_.resize(bytes);
}

void PrefixCache::clear() {
  while (!snapshots_.empty()) drop(snapshots_.begin()->first);
  spare_ = {};
}

void PrefixCache::clear(const std::string& state) {
  std::vector<PrefixIndex::Id> gone;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.root.state == state) gone.push_back(id);
  }
  for (const PrefixIndex::Id id : gone) drop(id);
}

PrefixCache::Recency& PrefixCache::list_of(const Snapshot& snapshot) {
  if (snapshot.slot < 0) return hosts_;
  return snapshot.met ? met_ : fresh_;
}

void PrefixCache::touch(PrefixIndex::Id id) {
  Snapshot& snapshot = snapshots_.at(id);
  Recency& list = list_of(snapshot);
  list.splice(list.begin(), list, snapshot.recency);
}

PrefixIndex::Id PrefixCache::victim_of() const {
  const bool of_met = fresh_.empty() || met_.size() > most_met_;
  return of_met ? met_.back() : fresh_.back();
}

std::optional<int64_t> PrefixCache::take_slot() {
  if (free_slots_.empty()) {
    if (fresh_.empty() && met_.empty()) return std::nullopt;
    const PrefixIndex::Id oldest = victim_of();
    if (!demote(oldest)) drop(oldest);
  }
  const int64_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

// Moves a snapshot to the host. Returns false when the budget or the rate forbids it.
bool PrefixCache::demote(PrefixIndex::Id id) {
  const size_t bytes = slots_.layout().slot_bytes();
  if (!may_copy_to_host(bytes)) return false;
  Snapshot& snapshot = snapshots_.at(id);
  snapshot.host = copy_to_host(snapshot.slot);
  hosts_.splice(hosts_.begin(), list_of(snapshot), snapshot.recency);
  free_slots_.push_back(std::exchange(snapshot.slot, -1));
  counters_.device_entries--;
  counters_.host_entries++;
  counters_.host_bytes += bytes;
  return true;
}

void PrefixCache::drop(PrefixIndex::Id id) {
  const auto found = snapshots_.find(id);
  Snapshot& snapshot = found->second;
  list_of(snapshot).erase(snapshot.recency);
  if (snapshot.slot >= 0) {
    free_slots_.push_back(snapshot.slot);
    counters_.device_entries--;
  } else {
    counters_.host_entries--;
    counters_.host_bytes -= snapshot.host.size();
    spare_ = std::move(snapshot.host);
  }
  const auto index = index_.find(snapshot.root);
  index->second.erase(id);
  if (index->second.size() == 0) index_.erase(index);
  snapshots_.erase(found);
}

// Makes room for `bytes` on the host and counts them against the rate. Returns false if it cannot.
bool PrefixCache::may_copy_to_host(size_t bytes) {
  const auto now = std::chrono::steady_clock::now();
  const double rate = static_cast<double>(options_.host_bytes_per_second);
  host_allowance_ += rate * std::chrono::duration<double>(now - allowance_at_).count();
  host_allowance_ = std::min(host_allowance_, std::max(kBurst * rate, static_cast<double>(bytes)));
  allowance_at_ = now;
  if (bytes > options_.host_bytes || host_allowance_ < static_cast<double>(bytes)) return false;
  while (counters_.host_bytes + bytes > options_.host_bytes) drop(hosts_.back());
  host_allowance_ -= static_cast<double>(bytes);
  return true;
}

}  // namespace fulmar
