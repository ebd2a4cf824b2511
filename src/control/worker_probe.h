// Health checks: asking a worker over HTTP how it is. The answer arrives as plain data on the client's
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/worker_view.h"
#include "net/http_client.h"

namespace fulmar {

// What one round of questions brought; parts that failed are empty.
struct ProbeAnswer {
  bool healthy = false;   // GET /health answered 200
  bool impostor = false;  // but by a process that is not the one we started
  std::optional<QueueFigures> queue;
  std::optional<std::string> metrics;
  std::optional<std::string> models_json;
};

using ProbeReply = std::function<void(ProbeAnswer)>;

// Only /health until the worker is known to be ready; then its figures, and the models when asked for.
enum class ProbeDepth { health, figures, figures_and_models };

struct ProbeSecrets {
  std::string token;     // of the worker's run, see net/worker_proof.h
  std::string password;  // sent only after the answer to /health has proved that the worker has the token
};

void probe_worker(HttpClient& client, const WorkerSpec& spec, const ProbeSecrets& secrets, ProbeDepth depth,
                  ProbeReply reply);

// Returns the ids in an answer to GET /v1/models; none where it is malformed.
std::vector<std::string> model_ids(const std::string& models_json);

}  // namespace fulmar
