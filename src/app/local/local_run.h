// Runs one row at a time on an engine in this process, for generate and chat.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/core/model_source.h"
#include "engine/engine.h"

namespace CLI {
class App;
}

namespace fulmar {

struct SamplingFlags {
  double temperature = 1.0;
  int top_k = 0;
  double top_p = 0.6;
  double min_p = 0.0;
  double presence = 0.0;
  double frequency = 0.0;
  double decay = 0.996;
  int64_t max_tokens = 1024;
  uint64_t seed = 0;
  bool seeded = false;
  std::vector<std::string> stops;
};

void add_sampling_flags(CLI::App& app, SamplingFlags& flags);
SamplingParams sampling_of(const SamplingFlags& flags);

// Adds --adapter.
void add_adapter_flag(CLI::App& app, std::string& flag);

// A model and its engine for one row at a time; on a CPU with n-gram drafts where they pay.
struct LocalEngine {
  LoadedModel loaded;
  std::unique_ptr<Engine> engine;
  AdapterUse adapter;         // that all rows use
  std::string initial_state;  // of the adapter, a name that the engine knows; empty: none
};
// Opens a model, and beside it the adapter that `adapter` names as read_adapter_flag reads it (empty: none).
// What cannot be computed beside a model is refused with the command that merges it.
Result<LocalEngine> open_local(ModelFlags model, const std::string& adapter, int64_t device_sessions);

// Runs the row to its end, passing text on as it is drawn; returns its last event. Ctrl-C
// ends the row, not the program.
Result<Event> run_row(Engine& engine, Ask ask, const std::function<void(const std::string&)>& show);

}  // namespace fulmar
