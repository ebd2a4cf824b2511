// The worker object.
#include "control/worker_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/url.h"

namespace fulmar {
namespace {

// Returns the exit code, or the negative signal number of a killed process, as process managers do.
int exit_number(const ChildExit& exit) { return exit.signal != 0 ? -exit.signal : exit.code; }

void write_time(JsonWriter& json, std::string_view name, const std::optional<double>& time) {
  json.key(name);
  if (time) {
    json.value(*time);
  } else {
    json.null();
  }
}

void write_crash(JsonWriter& json, const WorkerView& worker) {
  json.key("crash");
  if (!worker.crash) {
    json.null();
    return;
  }
  json.begin_object()
      .member("reason", describe(*worker.crash))
      .member("exit_code", exit_number(*worker.crash))
      .member("signal", worker.crash->signal)
      .key("lines")
      .begin_array();
  for (const std::string& line : worker.crash_lines) json.value(line);
  json.end_array().end_object();
}

}  // namespace

std::string_view name_of(WorkerPhase phase) {
  constexpr std::string_view kNames[] = {"starting", "ready",   "unresponsive", "draining",
                                         "stopping", "waiting", "exited"};
  return kNames[static_cast<size_t>(phase)];
}

WorkerPtr find_worker(const Fleet& fleet, std::string_view id) {
  const auto found =
      std::find_if(fleet.begin(), fleet.end(), [&](const WorkerPtr& worker) { return worker->id == id; });
  return found == fleet.end() ? nullptr : *found;
}

const std::string& series_of(const WorkerView& worker) {
  return worker.spec.name.empty() ? worker.id : worker.spec.name;
}

std::string endpoint_of(const WorkerSpec& spec) {
  return "http://" + host_and_port(spec.host, static_cast<uint16_t>(spec.port));
}

std::string reachable_host(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  return host;
}

void write_worker(JsonWriter& json, const WorkerView& worker) {
  json.begin_object()
      .member("worker_id", worker.id)
      .member("pid", worker.pid)
      .member("status", worker.alive() ? "running" : "exited")
      .member("created_at", worker.created_at)
      .member("started_at", worker.started_at);
  write_time(json, "exited_at", worker.exited_at);
  json.key("exit_code");
  if (worker.exit) {
    json.value(exit_number(*worker.exit));
  } else {
    json.null();
  }
  json.member("endpoint", endpoint_of(worker.spec)).key("spec");
  write_spec(json, worker.spec);
  json.member("ready", worker.answers())
      .member("phase", name_of(worker.phase))
      .member("name", worker.spec.name)
      .member("restarts", worker.restarts);
  write_time(json, "next_start_at", worker.next_start_at);
  json.key("models").begin_array();
  for (const std::string& model : worker.models) json.value(model);
  json.end_array()
      .member("rows_waiting", worker.queue.waiting)
      .member("rows_running", worker.queue.running)
      .member("in_flight", worker.in_flight->load(std::memory_order_relaxed))
      .member("tokens_per_second", worker.tokens_per_second)
      .member("memory_bytes", worker.memory_bytes);
  write_crash(json, worker);
  json.end_object();
}

}  // namespace fulmar
