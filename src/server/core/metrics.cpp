// Implements Metrics with prometheus-cpp: the server's own counters live in its registry, the engine's
// figures are converted at each scrape.
#include "server/core/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <atomic>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "base/version.h"

namespace fulmar {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr const char* kOutcomeNames[] = {"ok", "client_error", "server_error", "cancelled", "disconnected"};

prometheus::Histogram::BucketBoundaries seconds_from(double least, int steps) {
  // 1, 2.5, 5 per decade.
  prometheus::Histogram::BucketBoundaries bounds;
  double decade = least;
  for (int i = 0; i < steps; ++i) {
    constexpr double kFactors[] = {1.0, 2.5, 5.0};
    bounds.push_back(decade * kFactors[i % 3]);
    if (i % 3 == 2) decade *= 10;
  }
  return bounds;
}

prometheus::Histogram& histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 double least, int steps) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
      {}, seconds_from(least, steps));
}

ClientMetric sample(MetricType type, double value) {
  ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return metric;
}

MetricFamily figure(const char* name, const char* help, MetricType type, double value) {
  return MetricFamily{name, help, type, {sample(type, value)}};
}

// Makes a family with one value for each level of the session and prefix caches.
MetricFamily by_level(const char* name, const char* help, MetricType type,
                      std::initializer_list<std::pair<const char*, int64_t>> levels) {
  MetricFamily family{name, help, type, {}};
  for (const auto& [level, value] : levels) {
    ClientMetric metric = sample(type, static_cast<double>(value));
    metric.label = {{"level", level}};
    family.metric.push_back(std::move(metric));
  }
  return family;
}

// Makes a family with one value for each source of drafts.
MetricFamily by_source(const char* name, const char* help, const EngineStats& engine,
                       int64_t DraftCount::*figure_of) {
  MetricFamily family{name, help, MetricType::Counter, {}};
  for (size_t i = 0; i < engine.drafts.size(); ++i) {
    ClientMetric metric = sample(MetricType::Counter, static_cast<double>(engine.drafts[i].*figure_of));
    metric.label = {{"source", kDraftSourceNames[i]}};
    family.metric.push_back(std::move(metric));
  }
  return family;
}

std::vector<MetricFamily> draft_figures(const EngineStats& engine) {
  return {
      by_source("fulmar_drafted_tokens_total", "Tokens fed as guesses, by where they come from.", engine,
                &DraftCount::drafted),
      by_source("fulmar_accepted_draft_tokens_total", "Guesses that were right, by where they come from.",
                engine, &DraftCount::accepted),
  };
}

std::vector<MetricFamily> cache_figures(const EngineStats& engine) {
  return {
      by_level("fulmar_state_cache_entries", "Sessions kept in memory.", MetricType::Gauge,
               {{"device", engine.device_sessions}, {"host", engine.host_sessions}}),
      by_level("fulmar_state_cache_hits_total", "Sessions found, by where.", MetricType::Counter,
               {{"device", engine.session_hits_device},
                {"host", engine.session_hits_host},
                {"store", engine.session_hits_store}}),
      by_level("fulmar_prefix_cache_entries", "Prompt beginnings kept.", MetricType::Gauge,
               {{"device", engine.prefixes.device_entries}, {"host", engine.prefixes.host_entries}}),
      by_level("fulmar_prefix_cache_hits_total", "Prompts that began like an earlier one, by where.",
               MetricType::Counter,
               {{"device", engine.prefixes.device_hits}, {"host", engine.prefixes.host_hits}}),
      figure("fulmar_state_store_failures_total", "Writes or reads of the session store that failed.",
             MetricType::Counter, static_cast<double>(engine.session_store_failures)),
      figure("fulmar_state_unconfirmed_turns_total", "Turns answered before the shared store had them.",
             MetricType::Counter, static_cast<double>(engine.session_turns_unconfirmed)),
  };
}

std::vector<MetricFamily> store_figures(const StoreHealth& store) {
  return {
      figure("fulmar_state_store_up",
             "1 while the session store does what it is asked to, 0 since it has not.", MetricType::Gauge,
             store.trouble.empty() ? 1 : 0),
      figure("fulmar_state_store_waiting_bytes",
             "States of answered turns that the session store has not yet.", MetricType::Gauge,
             static_cast<double>(store.waiting_bytes)),
  };
}

std::vector<MetricFamily> adapter_figures(const AdapterFigures& adapters) {
  const auto counter = [](const char* name, const char* help, int64_t value) {
    return figure(name, help, MetricType::Counter, static_cast<double>(value));
  };
  const auto gauge = [](const char* name, const char* help, auto value) {
    return figure(name, help, MetricType::Gauge, static_cast<double>(value));
  };
  return {
      gauge("fulmar_adapters_registered", "Contents of adapters in host memory.", adapters.registered),
      gauge("fulmar_adapters_host_bytes", "Their numbers, in bytes.", adapters.host_bytes),
      gauge("fulmar_adapters_on_devices", "Adapters on the devices of models.", adapters.held),
      gauge("fulmar_adapters_device_bytes", "Their numbers, in bytes.", adapters.bytes),
      counter("fulmar_adapter_hits_total", "Requests whose adapter was on the devices.", adapters.hits),
      counter("fulmar_adapter_misses_total", "Requests whose adapter was not.", adapters.misses),
      counter("fulmar_adapter_loads_total", "Copies of adapters to devices.", adapters.loads),
      counter("fulmar_adapter_evictions_total", "Adapters that made room for others.", adapters.evictions),
  };
}

std::vector<MetricFamily> engine_figures(const EngineStats& engine) {
  const auto counter = [](const char* name, const char* help, int64_t value) {
    return figure(name, help, MetricType::Counter, static_cast<double>(value));
  };
  const auto gauge = [](const char* name, const char* help, double value) {
    return figure(name, help, MetricType::Gauge, value);
  };
  const auto running = static_cast<double>(engine.rows_prefill + engine.rows_decode);
  return {
      counter("fulmar_prompt_tokens_total", "Prompt tokens fed to the model.", engine.prompt_tokens),
      counter("fulmar_generated_tokens_total", "Tokens drawn.", engine.generated_tokens),
      counter("fulmar_fast_forwarded_tokens_total",
              "Tokens that a grammar determined, fed without asking the model.", engine.forwarded_tokens),
      counter("fulmar_prefix_cache_tokens_reused_total", "Prompt tokens not fed thanks to a snapshot.",
              engine.cached_tokens),
      counter("fulmar_steps_total", "Forward passes of the engine.", engine.steps),
      gauge("fulmar_requests_running", "Requests with at least one row in a slot.",
            static_cast<double>(engine.requests.size()) - static_cast<double>(engine.requests_waiting)),
      gauge("fulmar_requests_waiting", "Requests waiting for their first slot.",
            static_cast<double>(engine.requests_waiting)),
      gauge("fulmar_rows_running", "Rows in a slot.", running),
      gauge("fulmar_rows_waiting", "Rows waiting for a slot.", static_cast<double>(engine.rows_waiting)),
      gauge("fulmar_slots", "Places for sequences.", static_cast<double>(engine.slots_total)),
      gauge("fulmar_slots_used", "Places taken.", static_cast<double>(engine.slots_used)),
      gauge("fulmar_prefill_tokens_per_second", "Prompt tokens fed in the last second.",
            engine.prefill_tokens_per_second),
      gauge("fulmar_decode_tokens_per_second", "Tokens drawn in the last second.",
            engine.decode_tokens_per_second),
  };
}

MetricFamily device_memory(std::span<const DeviceMemory> devices) {
  MetricFamily family{
      "fulmar_gpu_memory_bytes", "Memory of the devices that models run on.", MetricType::Gauge, {}};
  for (const DeviceMemory& memory : devices) {
    for (const auto& [kind, bytes] :
         {std::pair{"total", memory.total}, {"used", memory.total - memory.free}, {"free", memory.free}}) {
      ClientMetric metric = sample(MetricType::Gauge, static_cast<double>(bytes));
      metric.label = {{"device", memory.device}, {"kind", kind}};
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

// Makes a family with the number of model layers on each device.
MetricFamily device_layers(std::span<const DeviceMemory> devices) {
  MetricFamily family{"fulmar_gpu_layers", "Layers of models that a device holds.", MetricType::Gauge, {}};
  for (const DeviceMemory& device : devices) {
    ClientMetric metric = sample(MetricType::Gauge, static_cast<double>(device.layers));
    metric.label = {{"device", device.device}};
    family.metric.push_back(std::move(metric));
  }
  return family;
}

// Makes a family with one value for each key.
MetricFamily by_key(const char* name, const char* help, std::span<const KeyAccountPtr> keys,
                    int64_t KeyUsage::*figure_of) {
  MetricFamily family{name, help, MetricType::Counter, {}};
  for (const KeyAccountPtr& account : keys) {
    ClientMetric metric = sample(MetricType::Counter, static_cast<double>(account->usage().*figure_of));
    metric.label = {{"key", account->name()}};
    family.metric.push_back(std::move(metric));
  }
  return family;
}

std::vector<MetricFamily> key_figures(std::span<const KeyAccountPtr> keys) {
  return {
      by_key("fulmar_key_requests_total", "Requests let through, by key.", keys, &KeyUsage::requests),
      by_key("fulmar_key_refused_total", "Requests refused by a limit of their key.", keys,
             &KeyUsage::refused),
      by_key("fulmar_key_prompt_tokens_total", "Prompt tokens, by key.", keys, &KeyUsage::prompt_tokens),
      by_key("fulmar_key_generated_tokens_total", "Tokens drawn, by key.", keys, &KeyUsage::generated_tokens),
  };
}

MetricFamily build_info() {
  ClientMetric metric = sample(MetricType::Gauge, 1);
  metric.label = {{"version", std::string(program_version())}};
  return MetricFamily{
      "fulmar_build_info", "Always 1; the labels tell the build.", MetricType::Gauge, {metric}};
}

constexpr const char* kThreadNames[] = {"io", "pool", "sessions"};
constexpr size_t kThreadKinds = std::size(kThreadNames);

struct WorkTotals {
  std::atomic<uint64_t> total{0}, largest{0};
};

// Makes a family with one value for each kind of thread.
MetricFamily by_threads(const char* name, const char* help, MetricType type,
                        const std::array<WorkTotals, kThreadKinds>& work,
                        std::atomic<uint64_t> WorkTotals::*figure_of) {
  MetricFamily family{name, help, type, {}};
  for (size_t i = 0; i < kThreadKinds; ++i) {
    ClientMetric metric = sample(type, static_cast<double>((work[i].*figure_of).load()));
    metric.label = {{"threads", kThreadNames[i]}};
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

struct Metrics::Content {
  std::array<WorkTotals, kThreadKinds> work;
  std::atomic<int64_t> held{0};
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("fulmar_requests_total")
                                                          .Help("Requests answered, by route and outcome.")
                                                          .Register(registry);
  prometheus::Histogram& first_token =
      histogram(registry, "fulmar_ttft_seconds", "From a request's arrival to its first token.", 1e-3, 15);
  prometheus::Histogram& token_gap =
      histogram(registry, "fulmar_itl_seconds", "Between two tokens of one row.", 1e-4, 15);
  prometheus::Histogram& whole_request = histogram(
      registry, "fulmar_e2e_seconds", "From a request's arrival to the end of its answer.", 1e-2, 15);
};

Metrics::Metrics() : content_(std::make_unique<Content>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(std::string_view route, Outcome outcome) {
  content_->requests
      .Add({{"route", std::string(route)}, {"outcome", kOutcomeNames[static_cast<size_t>(outcome)]}})
      .Increment();
}

void Metrics::observe_first_token(double seconds) { content_->first_token.Observe(seconds); }
void Metrics::observe_token_gap(double seconds) { content_->token_gap.Observe(seconds); }
void Metrics::observe_request(double seconds) { content_->whole_request.Observe(seconds); }

void Metrics::begin_holding() { content_->held.fetch_add(1); }
void Metrics::end_holding() { content_->held.fetch_sub(1); }

void Metrics::observe_work(ThreadKind kind, uint64_t steps) {
  WorkTotals& work = content_->work[static_cast<size_t>(kind)];
  work.total.fetch_add(steps);
  uint64_t largest = work.largest.load();
  while (steps > largest && !work.largest.compare_exchange_weak(largest, steps)) {
  }
}

uint64_t Metrics::largest_work(ThreadKind kind) const {
  return content_->work[static_cast<size_t>(kind)].largest.load();
}

std::string Metrics::text(const EngineStats& engine, const StoreHealth& store,
                          std::span<const DeviceMemory> devices, std::span<const KeyAccountPtr> keys,
                          const AdapterFigures& adapters) const {
  std::vector<MetricFamily> families = content_->registry.Collect();
  for (MetricFamily& family : engine_figures(engine)) families.push_back(std::move(family));
  for (MetricFamily& family : draft_figures(engine)) families.push_back(std::move(family));
  for (MetricFamily& family : cache_figures(engine)) families.push_back(std::move(family));
  for (MetricFamily& family : store_figures(store)) families.push_back(std::move(family));
  if (!devices.empty()) {
    families.push_back(device_memory(devices));
    families.push_back(device_layers(devices));
  }
  if (!keys.empty()) {
    for (MetricFamily& family : key_figures(keys)) families.push_back(std::move(family));
  }
  for (MetricFamily& family : adapter_figures(adapters)) families.push_back(std::move(family));
  // Read before the steps: when no request is held, all steps have been counted.
  families.push_back(figure("fulmar_requests_held", "Requests that something works on, this one too.",
                            MetricType::Gauge, static_cast<double>(content_->held.load())));
  families.push_back(by_threads("fulmar_request_steps_total", "Steps of reading requests, by threads.",
                                MetricType::Counter, content_->work, &WorkTotals::total));
  families.push_back(by_threads("fulmar_largest_request_steps", "Most steps of one request, by threads.",
                                MetricType::Gauge, content_->work, &WorkTotals::largest));
  families.push_back(build_info());
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace fulmar
