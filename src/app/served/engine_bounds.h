// What one option each decides of an engine: how memory for kept states is shared out, and what may wait.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fulmar {

// What is kept beside the sequences that run. Sessions are states of one size; so are beginnings of prompts.
struct CacheShares {
  int64_t device_sessions = 16, device_prefixes = 16;
  int64_t host_sessions = 32;
  double host_prefix_mib = 512;

  int64_t device_states() const { return device_sessions + device_prefixes; }
};

struct CacheFlags {
  std::optional<double> device_mib, host_mib;  // nothing: as `unsaid` has it
  CacheShares unsaid;
  std::string device_count, host_count;  // names of options of `unsaid` that were given
};

// Half of each budget is for sessions, half for beginnings of prompts; of an odd number of states sessions
// have the larger half. `slot_bytes`: what a state takes on the device, `state_bytes`: in host memory.
CacheShares share_caches(const CacheFlags& flags, size_t slot_bytes, size_t state_bytes);

// Most that may wait for a slot, over all requests.
struct WaitingBounds {
  int64_t rows = 0, bytes = 0;
};

// 64 rows and 256 KiB for each request that may wait, and at least 65,536 rows and 256 MiB. What is said of
// rows and MiB goes before it.
WaitingBounds waiting_bounds(int64_t max_queue, std::optional<int64_t> rows, std::optional<int64_t> mib);

}  // namespace fulmar
