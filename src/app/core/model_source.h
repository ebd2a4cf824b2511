// Loads a model from the flags that name it: device, checkpoint, vocabulary, weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "adapters/fit.h"
#include "app/core/open_devices.h"
#include "base/result.h"
#include "files/checkpoint.h"
#include "model/model.h"
#include "model/placement.h"
#include "ops/ops.h"
#include "text/prompt_template.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace fulmar {

struct ModelFlags {
  std::string model;        // a path or the name of an installed model; empty: the demo model
  std::string vocab;        // empty: chosen from the model
  bool needs_vocab = true;  // false: a model whose vocabulary is not at hand is loaded without one
  DeviceFlags devices;
  std::string quantize;    // the name of a strategy (files/strategy.h); empty: weights as stored
  bool keep_head = false;  // as kStoredHead at the end of that name says, too
  int64_t max_rows = 0;    // rows of one step; 0: suits the device
  int64_t least_rows = 0;  // the least, if max_rows is 0
  int64_t max_wanted =
      64;               // rows of one step whose logits are wanted: at least the sequences that run at once
  int64_t slots = 0;    // states to be kept in addition
  double kept_mib = 0;  // memory for further ones
  std::string chat_template = "auto";  // or the name of one
  bool allow_nonfinite = false;
  bool quiet = false;  // no progress bar
};

// Adds --model, --vocab, how chats are written, devices, states, and what belongs to them.
void add_model_flags(CLI::App& app, ModelFlags& flags);
// Adds the flags of the model's files: --model, --vocab, --quantize.
void add_file_flags(CLI::App& app, ModelFlags& flags);
void add_template_flag(CLI::App& app, std::string& choice);

struct LoadedModel {
  std::filesystem::path path;
  const PromptTemplate* prompt_template = &world_template();
  Devices devices;  // in the order of the model's stages
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  bool fixed_cuts = false;  // prompts must be cut at the same places each time, since bits depend on it
  size_t weight_bytes = 0;  // of the weights as stored
  BaseShapes shapes;        // of its tensors, for adapters
  std::string quantised;    // the format made while loading, "q6_k"; empty: that of the file
};

// Returns the file or folder that `name` means: a path; a name in the data folder's models/;
// empty: the bundled demo model.
Result<std::filesystem::path> find_model(const std::string& name);
// Returns the template of that name; "auto": chosen by the model at `path` (choose_prompt_template).
const PromptTemplate& template_of(const std::string& choice, const Checkpoint& checkpoint,
                                  const std::filesystem::path& path);
// Returns the vocabulary for a model of `rows` rows, or the file that `vocab` names.
Result<std::unique_ptr<Tokenizer>> tokenizer_of(const Checkpoint& checkpoint,
                                                const std::filesystem::path& path, int64_t rows,
                                                const std::string& vocab);
// Returns the options that a model is loaded with, sized for its first device.
LoadOptions load_options(const ModelFlags& flags, const Ops& device);
// Returns the layers of the model that each device has.
Result<std::vector<Placed>> place_on(const Devices& devices, const DeviceFlags& flags,
                                     const Checkpoint& checkpoint, const LoadOptions& options);
Result<LoadedModel> load_model(const ModelFlags& flags);

}  // namespace fulmar
