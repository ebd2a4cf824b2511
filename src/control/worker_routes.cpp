// The table.
#include "control/worker_routes.h"

#include "net/path_pattern.h"

namespace fulmar {
namespace {

using enum Placement;

// Of the lines that a method and a path fit, the first counts.
constexpr WorkerRoute kRoutes[] = {
    {"POST", "/v1/chat/completions", turn},
    {"POST", "/chat/completions", turn},
    {"POST", "/v1/completions", turn},
    {"POST", "/completions", turn},
    {"POST", "/v1/responses", turn},
    {"POST", "/v1/responses/input_tokens", turn},
    {"POST", "/v1/messages", turn},
    {"POST", "/v1/messages/count_tokens", turn},
    {"POST", "/api/chat", turn},
    {"POST", "/api/generate", turn},
    {"POST", "/api/embed", turn},
    {"POST", "/api/embeddings", turn},
    {"POST", "/api/show", turn},
    {"POST", "/completion", turn},
    {"POST", "/infill", turn},
    {"POST", "/apply-template", turn},
    {"POST", "/openai/v1/chat/completions", turn},
    {"POST", "/v2/chat/completions", turn},
    {"POST", "/v3/chat/completions", turn},
    {"POST", "/v1/batch/completions", turn},
    {"POST", "/big_batch/completions", turn},
    {"POST", "/FIM/v1/batch-FIM", turn},
    {"POST", "/v1/advanced/fim", turn},
    {"POST", "/translate/v1/batch-translate", turn},
    {"POST", "/v1/advanced/translate", turn},
    {"POST", "/state/chat/completions", turn},
    {"POST", "/multi_state/chat/completions", turn},
    {"POST", "/v1/advanced/multi_state", turn},
    {"PUT", "/v1/sessions/*/state", turn},
    {"POST", "/v1/embeddings", turn},
    {"POST", "/tokenize", turn},
    {"POST", "/detokenize", turn},
    {"POST", "/v1/tokens/count", turn},
    {"GET", "/api/version", turn},
    {"GET", "/openapi.json", turn},
    // Workers share the folder of states, so that any of them does.
    {"POST", "/v1/state/upload", turn},
    {"GET", "/v1/state/list", turn},
    {"POST", "/v1/state/list", turn},
    {"DELETE", "/v1/state/delete", turn},
    {"POST", "/v1/state/delete", turn},
    // Adapters of all workers are those that their arguments name.
    {"GET", "/v1/adapters", turn},
    {"GET", "/lora-adapters", turn},

    {"POST", "/v1/responses/*/cancel", lookup},
    {"GET", "/v1/responses/*/input_items", lookup},
    {"GET", "/v1/responses/*", lookup},
    {"DELETE", "/v1/responses/*", lookup},
    {"GET", "/v1/sessions/*/state", lookup},
    {"POST", "/v1/sessions/*/fork", lookup},
    {"DELETE", "/v1/sessions/*", lookup},
    {"POST", "/state/delete", lookup},
    {"POST", "/v1/server/resume", lookup},
    {"DELETE", "/v1/requests/*", lookup},

    {"GET", "/v1/sessions", merged},
    {"GET", "/api/tags", merged},
    {"GET", "/api/ps", merged},

    {"POST", "/state/status", apart},
    {"POST", "/v1/admin/state/status", apart},
    {"POST", "/v1/admin/state/delete", apart},
    {"POST", "/loadmodel", apart},
    {"POST", "/removemodel", apart},
    {"POST", "/loadstatemodel", apart},
    {"POST", "/removestatemodel", apart},
    {"POST", "/mrss_loadstatemodel", apart},
    {"POST", "/mrss_set_gatingweight", apart},
    {"POST", "/v1/model/load", apart},
    {"POST", "/api/pull", apart},
    {"POST", "/v1/adapters", apart},
    {"DELETE", "/v1/adapters", apart},
    {"POST", "/v1/load_lora_adapter", apart},
    {"POST", "/v1/unload_lora_adapter", apart},
    {"POST", "/lora-adapters", apart},
    {"POST", "/v1/server/stop", apart},
    {"POST", "/v1/server/pause", apart},
    {"GET", "/v1/server/status", apart},
    {"GET", "/v1/queue/status", apart},
    {"GET", "/v1/stats", apart},
    {"GET", "/slots", apart},
    {"GET", "/props", apart},
};

}  // namespace

std::span<const WorkerRoute> worker_routes() { return kRoutes; }

const WorkerRoute* find_worker_route(std::string_view method, std::string_view path) {
  std::string_view argument;
  for (const WorkerRoute& route : kRoutes) {
    if (route.method == method && path_fits(route.path, path, argument)) return &route;
  }
  return nullptr;
}

std::string worker_methods_of(std::string_view path) {
  std::string methods;
  std::string_view argument;
  for (const WorkerRoute& route : kRoutes) {
    if (!path_fits(route.path, path, argument)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method;
  }
  return methods;
}

}  // namespace fulmar
