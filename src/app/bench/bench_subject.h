// Which model a benchmark measures, and on which devices: that of a file, or one made in memory.
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
  std::string write;      // where a model that is made goes, too; empty: it stays in memory
  double zeros = 0;       // share of zeros behind relu² in a model that is made
};

// Rows for which the model is loaded, unless --rows says how many a step has.
struct BenchRows {
  int64_t widest = 1;   // sequences of the widest step
  int64_t wanted = 1;   // rows of one step whose logits are wanted
  bool served = false;  // the steps are a server's, as wide as suits the device
};

// Adds the options of the model and its devices, but those of its states.
void add_subject_flags(CLI::App& app, BenchSubject& subject);
// Adds those of its states, for a command that keeps them in one way.
void add_one_state_flags(CLI::App& app, BenchSubject& subject);

// Loads the model or makes it. Errors: a preset or type that is not known, states that the device cannot
// keep.
Result<LoadedModel> load_subject(const BenchSubject& subject, const BenchRows& rows);

// Refuses half states where a device cannot keep them.
Status check_half_states(bool wanted, const Devices& devices);

}  // namespace fulmar
