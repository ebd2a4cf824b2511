// Passes one request on to a worker and the answer back, chunk by chunk and unbuffered. A client that goes
// takes the worker's request with it. Knows no route and no model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/worker_view.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace fulmar {

struct RelayRequest {
  std::string target;  // path and query on the worker, escaped
  std::string body;
  std::string password;  // put in place of the client's Authorization; empty: that is passed on
  int refusal = 503;     // the status that sends the request to the next worker
};

// The worker to try next, null when there is none left. Called once at first, and again whenever an attempt
// ended before its answer began (no connection, or the refusal). Runs on a server or client thread.
using NextWorker = std::function<WorkerPtr()>;

// Answers the exchange in every case; when no worker could answer, with `unreachable`.
// Time-out: ten minutes for the whole exchange.
void relay(HttpClient& client, std::shared_ptr<Exchange> exchange, RelayRequest request, NextWorker next,
           HttpResponse unreachable);

// Copies header fields but those that concern one connection only (docs/http.md, "Control plane").
Headers end_to_end_headers(const Headers& headers);

}  // namespace fulmar
