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

// A model and its engine for one row at a time; on a CPU with n-gram drafts where they pay.
struct LocalEngine {
  LoadedModel loaded;
  std::unique_ptr<Engine> engine;
};
Result<LocalEngine> open_local(ModelFlags model, int64_t device_sessions);

// Runs the row to its end, passing text on as it is drawn; returns its last event. Ctrl-C
// ends the row, not the program.
Result<Event> run_row(Engine& engine, Ask ask, const std::function<void(const std::string&)>& show);

}  // namespace fulmar
