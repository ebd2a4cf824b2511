// What everybody may know of a worker at one moment, as plain data, and its JSON (docs/http.md, "Control
// plane").
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/child_process.h"
#include "control/log_ring.h"
#include "control/worker_spec.h"
#include "net/json_writer.h"

namespace fulmar {

enum class WorkerPhase {
  starting,      // runs, has not answered its health probe yet
  ready,         // answers
  unresponsive,  // was ready, answers no more
  draining,      // answers, takes no new requests from the router
  stopping,      // told to end
  waiting,       // ended; will be started again
  exited,        // ended
};

std::string_view name_of(WorkerPhase phase);

// Rows inside the worker's engine, as it said last.
struct QueueFigures {
  int64_t waiting = 0;
  int64_t running = 0;
};

struct WorkerView {
  std::string id;  // "wkr-" and ten hexadecimal digits
  WorkerSpec spec;
  WorkerPhase phase = WorkerPhase::starting;
  pid_t pid = -1;                  // of the present or the last run
  bool may_have_sessions = false;  // its file of sessions was there when it began, or it has been ready since
  bool proven = false;             // in this run: what answers on its port is the process that we started
  std::string token;               // of this run, by which the two know each other; shown to nobody
  double created_at = 0;           // seconds since 1970
  double started_at = 0;           // the present or the last run
  std::optional<double> exited_at;
  std::optional<ChildExit> exit;         // of the last run; nothing while it runs
  std::optional<ChildExit> crash;        // the last end that nobody asked for; stays over restarts
  std::vector<std::string> crash_lines;  // the last 50 lines before it
  int restarts = 0;
  std::optional<double> next_start_at;
  std::vector<std::string> models;  // ids that it serves
  std::string models_json;          // its answer to GET /v1/models
  QueueFigures queue;
  double tokens_per_second = 0;
  uint64_t memory_bytes = 0;                        // resident
  std::shared_ptr<const std::string> metrics;       // its last metrics text; null before the first
  std::shared_ptr<LogRing> log;                     // lives on through restarts
  std::shared_ptr<std::atomic<int64_t>> in_flight;  // requests that we have under way to it

  bool alive() const { return phase != WorkerPhase::exited && phase != WorkerPhase::waiting; }
  bool answers() const { return phase == WorkerPhase::ready || phase == WorkerPhase::draining; }
};

using WorkerPtr = std::shared_ptr<const WorkerView>;
using Fleet = std::vector<WorkerPtr>;  // in the order of their start
using FleetPtr = std::shared_ptr<const Fleet>;

// Returns the name under which its figures are kept: its own, or its id where it has none.
const std::string& series_of(const WorkerView& worker);

// Returns the worker of that id, or null.
WorkerPtr find_worker(const Fleet& fleet, std::string_view id);

// Returns its address, such as "http://127.0.0.1:41235".
std::string endpoint_of(const WorkerSpec& spec);
// Returns an address to connect to for a process that listens on `host`: not every system can connect to the
// wildcard address.
std::string reachable_host(const std::string& host);

void write_worker(JsonWriter& json, const WorkerView& worker);

}  // namespace fulmar
