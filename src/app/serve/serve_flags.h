// The options of `fulmar serve`, and the settings derived from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/core/model_source.h"
#include "app/serve/adapter_flags.h"
#include "app/serve/model_admin.h"
#include "app/served/engine_flags.h"
#include "base/result.h"
#include "cache/worker_directory.h"
#include "server/server.h"

namespace CLI {
class App;
}

namespace fulmar {

struct ServeFlags {
  ModelFlags model;
  ServeEngineFlags engine;
  ServerOptions server;
  double grace_seconds = 30;
  double drain_delay_seconds = 0;
  std::string api_keys;
  std::string directory;
  WorkerRecord record;
  std::vector<std::string> trusted_proxies;
  int64_t body_mib = 64;
  AdminOptions admin;
  ServeAdapterFlags adapters;
  double download_gib = 512;
  std::string sampling_defaults = "native";  // native, model, openai
  bool switch_models = false;                // the model is a folder of which clients load one
  std::vector<std::string> open;             // beside the usual routes: translate; none: not even lists
  std::string config;                        // read before the words are parsed

  bool no_model() const { return model.model == "none"; }
  bool opens(std::string_view what) const { return std::find(open.begin(), open.end(), what) != open.end(); }
};

void add_serve_flags(CLI::App& app, ServeFlags& flags);

// Fails for options that contradict each other.
Status check_serve(const ServeFlags& flags);

// Returns the server's options from the flags. Fails for files that cannot be read.
Result<ServerOptions> server_options(const ServeFlags& flags);

// Returns the flags for models that clients load: without the draft model, which is for the command line's
// model, since others may have another vocabulary.
ServeEngineFlags flags_of_others(const ServeEngineFlags& flags);

// Returns whether the path is a folder of several models, as files or as folders of their own.
bool holds_several_models(const std::filesystem::path& path);

}  // namespace fulmar
