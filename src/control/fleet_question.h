// One question to several workers at once, each answer whole. Knows no route.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/relay.h"
#include "control/worker_view.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace fulmar {

struct WorkerAnswer {
  WorkerPtr worker;
  int status = 0;  // 0: no whole answer came
  Headers headers;
  std::string body;
};

// Runs on the client's thread and must not block. The answers are in the order of the workers.
using AllAnswered = std::function<void(std::vector<WorkerAnswer>)>;

// Sends `method` and the request's target to each of the workers, of which there is at least one, with what
// the client of `exchange` showed to say who it is. `then` runs once, when all have answered or failed.
void ask_workers(HttpClient& client, std::shared_ptr<Exchange> exchange, const std::string& method,
                 const RelayRequest& request, const std::vector<WorkerPtr>& workers, AllAnswered then);

}  // namespace fulmar
