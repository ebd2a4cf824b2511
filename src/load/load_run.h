// Sends a load over HTTP and records what each client saw: one thread reads every stream, the caller's thread
// sends each request when it is due.
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

// Parses "http://host:port"; a path in the URL replaces the load's usual one.
Result<LoadTarget> load_target(const std::string& url);

struct LoadRequest {
  double at = 0;  // seconds after the start
  std::string body;
};

// Runs until every answer has ended. Calls `progress` on this thread with the number of ended answers, at
// least twice a second.
std::vector<AnswerRecord> run_load(const LoadTarget& target, std::vector<LoadRequest> requests,
                                   const std::function<void(size_t ended)>& progress = {});

}  // namespace fulmar
