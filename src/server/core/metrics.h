// Counters and histograms for Prometheus (names: docs/http.md, "Health and figures"). Thread-safe.
// Metrics.cpp alone includes the library.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/stats.h"
#include "server/core/key_ring.h"
#include "server/core/route.h"
#include "server/models/served_model.h"

namespace fulmar {

// How a request ended, as the label `outcome` of fulmar_requests_total.
enum class Outcome : uint8_t { ok, client_error, server_error, cancelled, disconnected };

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // `route`: the path as the table has it, so that the number of labels stays bounded.
  void count_request(std::string_view route, Outcome outcome);
  void observe_first_token(double seconds);
  void observe_token_gap(double seconds);
  void observe_request(double seconds);
  // A request is held from its arrival until nothing works on it any more, which can be behind its answer.
  void begin_holding();
  void end_holding();
  // What one thread has done for one request, in steps (base/meter.h).
  void observe_work(ThreadKind kind, uint64_t steps);
  // The most steps for one request at that place so far.
  uint64_t largest_work(ThreadKind kind) const;

  // The exposition text; the engine's, the session store's, the devices' and the keys' figures are taken as
  // they are now.
  std::string text(const EngineStats& engine, const StoreHealth& store, std::span<const DeviceMemory> devices,
                   std::span<const KeyAccountPtr> keys) const;

 private:
  struct Content;
  const std::unique_ptr<Content> content_;
};

}  // namespace fulmar
