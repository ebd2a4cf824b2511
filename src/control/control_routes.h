// The control plane's table of routes and what each does. Knows the supervisor and the relay, no socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/job_thread.h"
#include "control/gpu_list.h"
#include "control/session_homes.h"
#include "control/supervisor.h"
#include "control/worker_spec.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace fulmar {

// What the routes work on; outlives every exchange.
struct ControlService {
  std::string password;
  std::string models_dir;
  bool shared_store = false;
  std::vector<std::string> hosts;  // names in Host that are this server, where there is no password
  Supervisor& supervisor;
  HttpClient& client;
  JobThread& parsing;  // of bodies that would hold up other requests
  std::chrono::milliseconds relay_timeout;
  std::function<std::optional<std::vector<int64_t>>()> told_gpus;  // in place of what `gpus` finds
  std::atomic<bool> draining{false};
  GpuList gpus = {};
  SessionHomes homes = {};
};

// Tells whether the control plane answers this itself. What it passes on to workers is worker_routes.h's.
bool answers_itself(std::string_view method, std::string_view path);

// Answers one request in every case. Any thread.
void handle_control_request(ControlService& service, std::shared_ptr<Exchange> exchange);

// Returns the bound on a request's body, given its head: small where a key is needed and no header shows it.
BodyRule control_body_rule(const ControlService& service, const HttpRequest& head);

}  // namespace fulmar
