// fulmar bench --load and --serve: a server under load, seen by its clients.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/bench/bench_model.h"
#include "app/core/model_source.h"

namespace CLI {
class App;
}

namespace fulmar {

struct LoadFlags {
  std::string load;  // "conrwkv" or empty
  std::string rate = "4";
  int64_t num_prompts = 1200;
  std::string url;      // empty: a server of our own
  std::string dataset;  // empty: made-up prompts
  bool serve = false;
  int64_t streams = 320;
  int64_t tokens = 256;
  int64_t slots = 0;  // of our own server; 0: suits the load
  bool quiet = false;
  std::string json;  // file to write the figures to; empty: none

  bool wanted() const { return serve || !load.empty(); }
  bool needs_model() const { return serve || url.empty(); }
  int64_t rows() const;  // sequences that our own server runs at once; 0: its choice
};

void add_load_flags(CLI::App& app, LoadFlags& flags);

using LoadModel = std::function<Result<LoadedModel>()>;

// The acceptance load of docs/http.md, "Load test" against --url, or against a server of our own with the
// model.
Result<int> bench_load(const LoadFlags& flags, const LoadModel& load_model);

// Streams that all decode at once: the model's steps alone, the engine without HTTP, and the server with its
// clients. The model has room for that many wanted rows; `options` name the decode line.
Result<int> bench_serve(const LoadFlags& flags, LoadedModel model, BenchOptions options);

}  // namespace fulmar
