#include "app/bench/local_server.h"

#include "app/bench/stand_in_tokenizer.h"

namespace fulmar {

Result<std::unique_ptr<LocalServer>> LocalServer::start(LoadedModel model, ServeEngineFlags flags) {
  if (!model.tokenizer) model.tokenizer = std::make_unique<StandInTokenizer>(model.model->config().vocab);
  flags.sessions.session_db = "none";
  flags.sessions.state_store.clear();
  auto local = std::unique_ptr<LocalServer>(new LocalServer);
  FULMAR_ASSIGN(local->sessions_, SessionLadders::open(flags.sessions));
  FULMAR_ASSIGN(local->served_, ServedEngine::make(std::move(model), flags, *local->sessions_));
  local->models_.add(local->served_->model());
  ServerOptions options;
  options.port = 0;
  FULMAR_ASSIGN(local->server_, Server::start(options, local->models_));
  return local;
}

LocalServer::~LocalServer() {
  server_.reset();
  if (!served_) return;
  models_.remove(served_->model()->id);
  let_go(std::move(served_));
}

}  // namespace fulmar
