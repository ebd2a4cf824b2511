// The control plane's table of routes and what each does. Knows the supervisor and the relay, no socket.
#pragma once

#include <memory>
#include <string>

#include "control/gpu_list.h"
#include "control/session_homes.h"
#include "control/supervisor.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace fulmar {

// What the routes work on; outlives every exchange.
struct ControlService {
  std::string password;
  std::string models_dir;
  Supervisor& supervisor;
  HttpClient& client;
  GpuList gpus;
  SessionHomes homes;
};

// Answers one request in every case. Any thread.
void handle_control_request(ControlService& service, std::shared_ptr<Exchange> exchange);

// What every response carries (docs/http.md, "Headers").
void add_cors(Headers& headers);

}  // namespace fulmar
