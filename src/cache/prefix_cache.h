// Prefix cache (prompt caching): snapshots of states after prompt beginnings, shared by an owner's requests
// to one model, found by tokens, kept in a number of device slots and a host budget, evicted least recently
// used first (LRU). The device tier is a segmented LRU: snapshots that were restored once have up to half of
// the slots to themselves, so that many that are never used again do not evict a beginning that requests
// share.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/prefix_index.h"
#include "ops/slots.h"

namespace fulmar {

struct PrefixCacheOptions {
  size_t host_bytes = size_t{1} << 30;
  // Copies to the host beyond this rate are dropped: running streams wait for each copy, at 6 to 8 GB/s, and
  // at row counts that reach the rate, few of the copies are used before they are evicted.
  size_t host_bytes_per_second = size_t{64} << 20;
  size_t least_tokens = 16;  // shorter beginnings are cheaper to feed than to keep
};

// Returns where snapshots of a prompt of `length` tokens pay, ascending: near its end, since requests that
// share a prompt mostly differ in the last words, and at coarse intervals. `covered` tokens have a snapshot,
// `shared` are known: where the prompt parts from them is a likely branch.
std::vector<size_t> snapshot_points(size_t length, size_t covered, size_t shared);

// Distinguishes states after the same tokens by where they started, by adapter and by owner, so that nobody
// can learn from cached states how others' prompts begin.
struct PrefixRoot {
  std::string state;  // the tuned state's name; empty: zero
  std::string owner;
  std::string adapter = {};  // identity of what it changes; empty: none
  auto operator<=>(const PrefixRoot&) const = default;
};

class PrefixCache {
 public:
  // Makes a cache that owns `device_slots`.
  PrefixCache(StateSlots& slots, std::vector<int64_t> device_slots, const PrefixCacheOptions& options);

  struct Lookup {
    size_t covered = 0;  // tokens a snapshot covers; 0: none
    size_t shared = 0;   // tokens shared with something seen
  };
  // Looks a prompt up. At most all but the last token are covered, so that something is left to feed.
  Lookup look(const PrefixRoot& root, std::span<const int32_t> tokens) const;
  // Copies the longest snapshot into `slot`; returns the tokens it covers, 0 when there is none.
  size_t restore(const PrefixRoot& root, std::span<const int32_t> tokens, int64_t slot);
  // Saves a copy of the state that `slot` has after exactly these tokens.
  void save(const PrefixRoot& root, std::span<const int32_t> tokens, int64_t slot);
  // Maps memory for the next copy to the host, which takes longer than the copy. Call it while nobody
  // waits.
  void prepare();
  void clear();
  // Forgets what started from a tuned state, for all owners.
  void clear(const std::string& state);

  struct Counters {
    int64_t device_entries = 0, host_entries = 0;
    size_t host_bytes = 0;
    int64_t device_hits = 0, host_hits = 0, misses = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  using Recency = std::list<PrefixIndex::Id>;  // most recent first
  struct Snapshot {
    PrefixRoot root;
    int64_t slot = -1;
    std::vector<std::byte> host;
    bool met = false;  // it was restored
    Recency::iterator recency;
  };

  Recency& list_of(const Snapshot& snapshot);
  void touch(PrefixIndex::Id id);
  PrefixIndex::Id victim_of() const;  // of those on the device, at least one
  std::optional<int64_t> take_slot();
  bool demote(PrefixIndex::Id id);
  void drop(PrefixIndex::Id id);
  bool may_copy_to_host(size_t bytes);
  std::vector<std::byte> copy_to_host(int64_t slot);

  StateSlots& slots_;
  const PrefixCacheOptions options_;
  std::vector<int64_t> free_slots_;
  std::map<PrefixRoot, PrefixIndex> index_;  // none is empty
  std::unordered_map<PrefixIndex::Id, Snapshot> snapshots_;
  const size_t most_met_;
  Recency fresh_, met_, hosts_;   // on the device without and after a restore, and on the host
  std::vector<std::byte> spare_;  // of the last one that went, for the next: mapped pages are dear
  PrefixIndex::Id next_id_ = 1;
  Counters counters_;
  double host_allowance_ = 0;  // bytes that may be copied now
  std::chrono::steady_clock::time_point allowance_at_;
};

}  // namespace fulmar
