// What a worker is to be: parsed from a start request or a configuration file, written as JSON, turned into
// command-line arguments. Pure, but for the look at the file system in locate_model().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/restart.h"
#include "net/json_value.h"
#include "net/json_writer.h"

namespace fulmar {

struct WorkerSpec {
  std::string name;         // may be empty
  bool configured = false;  // a configuration file describes it, and decides how long it lives
  std::string model_path;
  std::string tokenizer_path;     // empty: the server's own choice
  std::string models_dir;         // whatever the worker is asked to load later lies below it; empty: anywhere
  std::optional<int64_t> gpu_id;  // the only GPU that the worker sees; nothing: all
  std::string host = "127.0.0.1";
  int64_t port = 0;  // 0: to be chosen
  int64_t max_batch_size = 64;
  int64_t max_prefill_batch = 16;
  int64_t max_queue_size = 1000;
  int64_t prefill_chunk_size = 512;
  bool use_cuda_graph = false;
  RestartPolicy restart = RestartPolicy::off;
  std::vector<std::string> extra_arguments;  // from a configuration file only
  bool shared_store = false;                 // its environment names one

  bool operator==(const WorkerSpec&) const = default;
};

// One field that cannot be used; becomes an entry of a 422 answer's "detail".
struct FieldProblem {
  std::string field;
  std::string message;
  std::string type;  // "missing", "value_error"
};

struct ParsedSpec {
  WorkerSpec spec;
  std::vector<FieldProblem> problems;  // the spec counts only when there is none
};

// Where models may lie and how a spec reaches the program.
struct WorkerSurroundings {
  std::string models_dir;     // empty: anywhere
  bool shared_store = false;  // the environment of all workers names a store of sessions
  // The GPUs that there are; nothing: nobody can say.
  std::optional<std::vector<int64_t>> gpus = {};
};

// Parses a spec from any JSON value, and looks for the model's file.
ParsedSpec parse_worker_spec(const JsonValue& body, const WorkerSurroundings& surroundings);

// Returns the file that `path` means: itself, or with ".pth" appended. With a models folder, relative paths
// start there, and no file outside of it is found, neither by ".." nor by a link; an error does not tell what
// is outside.
Result<std::string> locate_model(const std::string& path, const std::string& models_dir);

// Where a worker keeps what its clients leave with it.
struct WorkerFiles {
  std::string sessions;  // a file of its own
  std::string states;    // the folder of tuned states, which all workers share; empty: none
};

// Returns the arguments of `fulmar`.
std::vector<std::string> serve_arguments(const WorkerSpec& spec, const WorkerFiles& files,
                                         int64_t grace_seconds);

// Returns whether its arguments or its environment name a session store that workers share.
bool shares_sessions(const WorkerSpec& spec);

// Writes the "spec" object of a worker (docs/http.md, "Control plane").
void write_spec(JsonWriter& json, const WorkerSpec& spec);

// Returns {"detail":[{"loc":["body","port"],"msg":"...","type":"..."}]}.
std::string problems_json(const std::vector<FieldProblem>& problems);

struct ModelFile {
  std::string path;  // relative to the models folder
  uint64_t bytes = 0;
};

// Returns the model files below `models_dir`, by name; at most 1000, at most four folders deep. None for an
// empty name.
std::vector<ModelFile> list_model_files(const std::string& models_dir);

}  // namespace fulmar
