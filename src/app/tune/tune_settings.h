// The flags of fulmar tune, and the settings of a run that they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "tune/tuning.h"

namespace CLI {
class App;
}

namespace fulmar {

struct TuneFlags {
  std::string model, vocab;
  std::string chat_template = "auto";
  std::string data, output, resume;
  std::string method = "state", mask = "answers", schedule = "geometric";
  std::optional<int64_t> rank, epochs;
  std::optional<double> alpha, rate, last_rate;
  int64_t steps = 0;  // 0: as many as the epochs have
  int64_t context = 512, batch = 8, warmup = 10, save_every = 0;
  double clip = 1;
  uint64_t seed = 1234;
  bool quiet = false;
};

void add_tune_flags(CLI::App& command, TuneFlags& flags);

// Returns the settings, without base, data and, where the flags give epochs, steps. Errors (invalid) name
// flags that have no effect beside others, and flags that are missing.
Result<TuneSettings> settings_of(const TuneFlags& flags);

}  // namespace fulmar
