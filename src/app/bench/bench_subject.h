// The model that a benchmark measures, of a file or made in memory, and its devices.
#pragma once

#include <cstdint>
#include <string>

#include "app/core/model_source.h"
#include "base/result.h"

namespace CLI {
class App;
}

namespace fulmar {

struct BenchSubject {
  ModelFlags model;
  std::string synthetic;  // NAME or NAME:TYPE of a model to make; empty: the model is a file's
  std::string write;      // file that a made model is written to; empty: it stays in memory
  double zeros = 0;       // fraction of hidden channels at zero after relu² in a made model
};

// The rows that the model is loaded for, unless --rows gives those of a step.
struct BenchRows {
  int64_t widest = 1;   // sequences of the widest step
  int64_t wanted = 1;   // rows of one step whose logits are wanted
  bool served = false;  // the steps are a server's, as wide as suits the device
};

// Adds the options of the model and its devices, but for those of its states.
void add_subject_flags(CLI::App& app, BenchSubject& subject);
// Adds the options of its states, for a command that keeps them in one way.
void add_one_state_flags(CLI::App& app, BenchSubject& subject);

// Loads the model or makes it. Fails for an unknown preset or type, and for states
// that the device cannot keep.
Result<LoadedModel> load_subject(const BenchSubject& subject, const BenchRows& rows);

// Fails if f16 states are wanted and a device cannot keep them.
Status check_half_states(bool wanted, const Devices& devices);

}  // namespace fulmar
