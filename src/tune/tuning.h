// A run of training: steps, what it saves, and how it is taken up again. Knows no command line and no clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/model_parameters.h"
#include "tune/optimiser.h"
#include "tune/samples.h"
#include "tune/trained_model.h"

namespace fulmar {

enum class TuneMethod : uint8_t { state, lora, miss };

struct TuneSettings {
  TuneMethod method = TuneMethod::state;
  int64_t rank = 16;  // of adapters
  double alpha = 32;  // of LoRA: its product is multiplied by alpha / rank
  LearningRate rate;
  double clip = 1;    // of the gradients' norm; 0: none
  int64_t batch = 8;  // samples of a step
  int64_t steps = 1;  // of the run
  uint64_t seed = 1234;
  std::string base, data;  // what names the model's weights and the samples, such as their checksums
};

// What one step did.
struct TuneStep {
  int64_t step = 0;  // counted from 1
  double loss = 0;   // before the step
  double rate = 0, gradient_norm = 0;
  int64_t tokens = 0;
};

// What else is told about a result, by name.
using TuneFacts = std::vector<std::pair<std::string, std::string>>;

// Equal settings, parameters and samples give the same bits, also when the run is saved and taken up again.
class Tuning {
 public:
  // Adds what the method trains and freezes the rest. The arguments stay where they are.
  Tuning(ModelParameters<float>& parameters, const Samples& samples, const TuneSettings& settings);

  int64_t done() const { return adam_.steps; }
  bool finished() const { return done() >= settings_.steps; }
  // Runs the next step. Error invalid, with the parameters as they were before the step: the loss or a
  // gradient is not finite.
  Result<TuneStep> step();

  // Writes all that a run is taken up from into the folder, which is made. A folder without checkpoint.json
  // is none.
  Status save(const std::filesystem::path& folder) const;
  // Takes up the run that was saved in the folder. Errors: invalid, where a setting differs, with both
  // values; corrupt, where the tensors are not those of this run.
  Status resume(const std::filesystem::path& folder);

  // Writes what was trained in the forms that servers load: "state-final.pth", blocks.l.att.time_state [H,
  // value, key]; or "adapter-final.pth" under RWKV-PEFT's names, with LoRA's alpha in "adapter-final.json".
  // All f32. "tune.json" says how it was made, with these facts. Returns the first file's path.
  Result<std::filesystem::path> write_result(const std::filesystem::path& folder,
                                             const TuneFacts& facts) const;

 private:
  ModelParameters<float>& parameters_;
  const Samples& samples_;
  const TuneSettings settings_;
  TrainedModel<float> model_;
  Adam<float> adam_;
};

// Returns the bytes that a run needs at most: `numbers` of the model's weights, and batches of up to `rows`
// tokens.
struct TuneSizes {
  int64_t numbers = 0, rows = 0;
};
int64_t tuning_bytes(const ModelConfig& config, const TuneSettings& settings, const TuneSizes& sizes);
// Returns the tokens of the largest batch that samples can make.
int64_t largest_batch(const Samples& samples, int64_t batch);

// Returns the folder of the last checkpoint in a run's folder, "checkpoint-<steps>". Error not_found: there
// is none.
Result<std::filesystem::path> last_checkpoint(const std::filesystem::path& run);
std::filesystem::path checkpoint_folder(const std::filesystem::path& run, int64_t steps);

}  // namespace fulmar
