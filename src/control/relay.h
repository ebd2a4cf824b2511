// Reverse proxy: passes one request on to a worker and the answer back, chunk by chunk and at the client's
// pace (backpressure). A client that goes takes the worker's request with it. Knows no route and no model.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "control/worker_view.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace fulmar {

struct RelayRequest {
  std::string target;     // path and query on the worker, escaped
  std::string password;   // put in place of the client's Authorization, for workers that have proved
                          // themselves; empty: the client's is passed on
  bool searches = false;  // for a session, on the client's behalf: shown to the worker
  int refusal = 503;      // the status that sends the request to the next worker; 0: none does
  // true: the client gets the refusal where no other worker has answered. Otherwise, and where a worker could
  // not be asked, it gets `unreachable`.
  bool refusal_stands = true;
  std::chrono::milliseconds total_timeout{600'000};  // for the whole exchange with one worker
  // Called with the worker whose answer is relayed, as that begins.
  std::function<void(const WorkerView& worker, int status, const Headers& headers)> answered = {};
};

// The worker to try next, null when there is none left. Called once at first, and again whenever an attempt
// may be repeated elsewhere. Runs on a server or client thread.
using NextWorker = std::function<WorkerPtr()>;

// What follows an attempt that ended before its answer began.
enum class AfterFailure { next_worker, bad_gateway, gateway_timeout };

// Returns the action after a failure: another worker is asked only where nothing of the request was sent, or
// where it is idempotent (RFC 9110, 9.2.2), since the first worker may have run it.
AfterFailure after_failure(const ClientOutcome& outcome, std::string_view method);

// Answers the exchange in every case: with `unreachable` when no worker could be asked, with 502 when a
// worker broke off and may have run the request, with 504 when time was up.
void relay(HttpClient& client, std::shared_ptr<Exchange> exchange, RelayRequest request, NextWorker next,
           HttpResponse unreachable);

// Returns the request to a worker for the client of `exchange`: the client's header fields, those that tell
// the worker of the client, and no body.
ClientRequest request_to_worker(const WorkerView& worker, const Exchange& exchange,
                                const RelayRequest& request);

// Copies header fields but those that concern one connection only (docs/http.md, "Control plane").
Headers end_to_end_headers(const Headers& headers);

}  // namespace fulmar
