// The state that all calls of a server share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/fair_queue.h"
#include "server/core/auth.h"
#include "server/core/key_ring.h"
#include "server/core/metrics.h"
#include "server/core/options.h"
#include "server/core/route.h"
#include "server/core/unkept.h"
#include "server/models/model_admin.h"
#include "server/models/served_model.h"

namespace fulmar {

class AdapterRegistry;
class AnswerConstraints;
class BranchIndices;
struct ResponseFamily;
struct Service;

// State of the families of routes, made by make_families(). Opaque here: each family's folder defines its
// types.
struct Families {
  std::shared_ptr<AnswerConstraints> constraints;
  std::shared_ptr<AdapterRegistry> adapters;
  std::shared_ptr<ResponseFamily> responses;
  std::shared_ptr<BranchIndices> branches;
  // Looks for what a request to that route holds and the route does not use. Called before its handler.
  UnkeptFields (*unkept)(const Route& route, const HttpRequest& request, const JsonValue& body);
  // Called after each call, which may have left room in the engine or a model.
  void (*call_ended)(const std::shared_ptr<Service>& service);
  // Calls `then` once what was made under a request's id has been tried to store; at once where nothing was.
  void (*when_stored)(Service& service, const std::string& id, std::function<void()> then);
  // Returns the listener of a request that is resumed, in place of `reply`, which gets all events from it.
  std::shared_ptr<Listener> (*resumed)(const std::shared_ptr<Service>& service, const std::string& id,
                                       std::shared_ptr<Listener> reply);
  // Returns why the store of responses fails; nothing where it works.
  std::string (*response_trouble)(const Service& service);
};

// The last event of a call may come when the server has gone already, so each call holds on to it; the
// registry is not touched then.
struct Service {
  ModelRegistry& models;
  const ServerOptions options;
  ModelAdmin* const admin;  // null: models and states stay as they are
  const std::span<const Route> routes;
  const Families families;
  Metrics metrics{};
  const std::shared_ptr<KeyRing> keys = nullptr;  // null: there are none
  // Queues a job for threads of a kind other than `io`. False when too many wait there already.
  std::function<bool(ThreadKind, ClientJob)> post_job = nullptr;
  std::atomic<bool> loading{false};   // the first model is being loaded
  std::atomic<bool> draining{false};  // /health fails so that load balancers leave; requests are served
  std::atomic<bool> ending{false};    // requests are refused

  AuthRules auth_rules() const {
    return {options.password, options.auth_all, options.open_translate, keys.get()};
  }
};

}  // namespace fulmar
