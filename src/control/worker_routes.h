// The table of a worker's routes: which of them the control plane passes on, and where to. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fulmar {

enum class Placement : uint8_t {
  turn,    // the worker that has the conversation, else one that serves the model
  lookup,  // one worker after the other until one has it, the one that was seen with it last first
  merged,  // all workers, and their lists become one
  apart,   // not passed on: what it does is one worker's business; reached through the proxy
};

struct WorkerRoute {
  std::string_view method;
  std::string_view path;  // a "*" in it stands for any text of at least one byte
  Placement placement;
};

std::span<const WorkerRoute> worker_routes();

// Returns the first route that matches, or null.
const WorkerRoute* find_worker_route(std::string_view method, std::string_view path);
// Returns the methods of the routes whose path matches: "GET, POST".
std::string worker_methods_of(std::string_view path);

}  // namespace fulmar
