// A server of this process on a free loopback port, for measurements.
#pragma once

#include <memory>
#include <string>

#include "app/served/served_engine.h"
#include "server/server.h"

namespace fulmar {

class LocalServer {
 public:
  // Starts a server; a model without a vocabulary gets stand-in words. Sessions are in memory only.
  static Result<std::unique_ptr<LocalServer>> start(LoadedModel model, ServeEngineFlags flags);

  ~LocalServer();

  std::string url() const { return "http://" + server_->address(); }
  Engine& engine() { return *served_->model()->engine; }
  const Tokenizer& tokenizer() const { return *served_->model()->tokenizer; }

 private:
  LocalServer() = default;

  std::unique_ptr<SessionLadders> sessions_;
  std::shared_ptr<ServedEngine> served_;
  ModelRegistry models_;
  std::unique_ptr<Server> server_;
};

}  // namespace fulmar
