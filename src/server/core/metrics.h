// Counters and histograms for Prometheus (names: docs/http.md, "Health and figures"). Thread-safe. Only
// metrics.cpp includes the library.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/stats.h"
#include "server/core/adapter_figures.h"
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

  // Counts a request. `route`: the path as in the table of routes, so that the number of labels stays
  // bounded.
  void count_request(std::string_view route, Outcome outcome);
  void observe_first_token(double seconds);
  void observe_token_gap(double seconds);
  void observe_request(double seconds);
  // Counts a request as held from its arrival until no thread works on it any more, which may be after its
  // answer.
  void begin_holding();
  void end_holding();
  // Records the steps (base/meter.h) that one thread has done for one request.
  void observe_work(ThreadKind kind, uint64_t steps);
  // Returns the most steps that any request has taken on threads of this kind.
  uint64_t largest_work(ThreadKind kind) const;

  // Returns the exposition text, with the present figures of the engine, the session store, the devices,
  // the keys and the adapters.
  std::string text(const EngineStats& engine, const StoreHealth& store, std::span<const DeviceMemory> devices,
                   std::span<const KeyAccountPtr> keys, const AdapterFigures& adapters) const;

 private:
  struct Content;
  const std::unique_ptr<Content> content_;
};

}  // namespace fulmar
