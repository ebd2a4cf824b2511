// Derives several bounds of an engine from one option each: how memory for kept states is
// divided, and how much may wait. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace fulmar {

// The states that are kept in addition to running sequences. Sessions are states of one
// size, as are prompt prefixes.
struct CacheShares {
  int64_t device_sessions = 16, device_prefixes = 16;
  int64_t host_sessions = 32;
  double host_prefix_mib = 512;

  int64_t device_states() const { return device_sessions + device_prefixes; }
};

struct CacheFlags {
  std::optional<double> device_mib, host_mib;  // nothing: use `unsaid`
  CacheShares unsaid;
  std::string device_count, host_count;  // names of options of `unsaid` that were given
};

// Divides each budget: half for sessions, half for prompt prefixes; of an odd number of states sessions have
// the larger half. `slot_bytes`: of a state on the device, `state_bytes`: in host memory.
CacheShares share_caches(const CacheFlags& flags, size_t slot_bytes, size_t state_bytes);

// Fails where sessions would be kept nowhere: in neither tier, and there is no store (`stored` is false).
Status check_room_for_sessions(const CacheShares& shares, bool stored, size_t state_bytes);

// The most rows and bytes that may wait for a slot, over all requests.
struct WaitingBounds {
  int64_t rows = 0, bytes = 0;
};

// Returns 64 rows and 256 KiB for each request that may wait, and at least 65,536 rows and 256 MiB. `rows`
// and `mib` take precedence where given.
WaitingBounds waiting_bounds(int64_t max_queue, std::optional<int64_t> rows, std::optional<int64_t> mib);

}  // namespace fulmar
