// The HTTP server of one process: listens, dispatches by the table of routes, stops gracefully.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/core/options.h"
#include "server/models/model_admin.h"
#include "server/models/served_model.h"

namespace fulmar {

class AdapterRegistry;

class Server {
 public:
  // Starts a server. The registry, the engines and tokenizers of its models, and `admin` must outlive it.
  // Models may be added and removed while it runs. Logs a warning when other hosts can reach it without a
  // password. `admin` null: the routes that load and remove answer 501.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, ModelRegistry& models,
                                               ModelAdmin* admin = nullptr);
  ~Server();  // stop(0)
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  std::string address() const;  // "127.0.0.1:8000"

  // Ends the loading phase that ServerOptions::loading began: the first model is loaded, or none is wanted.
  void loaded();
  // Puts `keys` in the place of those that the server began with. Only for a server that began with some.
  void replace_keys(std::vector<ApiKey> keys);

  // Returns the adapters that requests may name.
  AdapterRegistry& adapters();

  // Answers /health with 503 and goes on for options.drain_delay; then accepts no connections, answers what
  // still comes on open ones, lets requests finish for at most options.grace, refuses and cancels the rest,
  // and waits shortly for their last words. Blocks; not to be called on a server thread. Idempotent. True
  // when nothing had to be cancelled.
  bool stop();
  bool stop(std::chrono::milliseconds grace);

  // Returns what writes stored responses, to be held beyond the server while other stores end. What cannot be
  // written is tried each second while it is held, and then until `give_up`.
  std::shared_ptr<const void> keep_storing(std::chrono::steady_clock::time_point give_up);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fulmar
