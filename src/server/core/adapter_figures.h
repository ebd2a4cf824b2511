// Figures of adapters, for /v1/adapters and Prometheus.
#pragma once

#include <cstdint>

namespace fulmar {

struct AdapterFigures {
  // Of the registry: contents in host memory, and registrations of a content that was there already.
  int64_t registered = 0, host_hits = 0;
  uint64_t host_bytes = 0;
  // Of the devices of all models: what is there now, and requests that found it there or not.
  int64_t held = 0, hits = 0, misses = 0, loads = 0, evictions = 0;
  uint64_t bytes = 0, peak_bytes = 0;
  double load_ms = 0;

  void add(const AdapterFigures& other) {
    registered += other.registered;
    host_hits += other.host_hits;
    host_bytes += other.host_bytes;
    held += other.held;
    hits += other.hits;
    misses += other.misses;
    loads += other.loads;
    evictions += other.evictions;
    bytes += other.bytes;
    peak_bytes += other.peak_bytes;
    load_ms += other.load_ms;
  }
};

}  // namespace fulmar
