// fulmar bench load and bench serve: a server under load, measured by its clients.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/bench/bench_model.h"
#include "app/core/model_source.h"

namespace fulmar {

struct LoadFlags {
  std::string client = "conrwkv";  // the client whose requests are sent
  std::string rate = "4";
  int64_t num_prompts = 1200;
  std::string url;      // empty: a server of our own
  std::string dataset;  // empty: made-up prompts
  int64_t slots = 0;    // of our own server; 0: its choice
  bool quiet = false;
  std::string json;  // file to write the figures to; empty: none
};

struct StreamFlags {
  int64_t streams = 320;
  int64_t tokens = 256;
  int64_t slots = 0;  // of the server
  bool quiet = false;
  std::string json;  // file to write the figures to; empty: none
};

using LoadModel = std::function<Result<LoadedModel>()>;

// Runs the acceptance load (docs/http.md, "Load test") against --url, or against a
// server of our own with the model.
Result<int> bench_load(const LoadFlags& flags, const LoadModel& load_model);

// Measures streams that all decode at once: the model's steps alone, the engine without HTTP, and the server
// with its clients. The model has room for that many wanted rows; `options` name the decode line.
Result<int> bench_serve(const StreamFlags& flags, LoadedModel model, BenchOptions options);

}  // namespace fulmar
