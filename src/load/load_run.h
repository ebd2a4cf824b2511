// Sends a load over HTTP and records what each client saw: one thread reads every stream, the caller's thread
// sends when a request is due.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/completion_reader.h"
#include "net/http_message.h"

namespace fulmar {

struct LoadTarget {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string path = "/v1/completions";
  Headers headers;
};

// "http://host:port" with the load's path; a path of its own in the URL wins.
Result<LoadTarget> load_target(const std::string& url);

struct LoadRequest {
  double at = 0;  // seconds after the start
  std::string body;
};

// Blocks until every answer has ended. `progress` is told, on this thread, how many have ended; at least
// twice a second.
std::vector<AnswerRecord> run_load(const LoadTarget& target, std::vector<LoadRequest> requests,
                                   const std::function<void(size_t ended)>& progress = {});

}  // namespace fulmar
