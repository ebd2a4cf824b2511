// From the flags that name a model to one that is loaded: device, checkpoint, vocabulary, weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "files/checkpoint.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/prompt_template.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace fulmar {

struct ModelFlags {
  std::string model;            // a path or the name of an installed model; empty: the demo model
  std::string vocab;            // empty: chosen from the model
  bool needs_vocab = true;      // false: a model whose vocabulary is not at hand is loaded without one
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  std::string state_dtype = "fp32";
  int64_t defer = 1;  // states are written behind every so many rows
  // Rows of a sequence and step that may be rolled back, the first counted in; each takes memory beside every
  // slot, on a GPU only where that is said.
  int64_t revocable = 0;
  bool revocable_on_gpu = false;
  std::string quantize;         // the name of a quantisation; empty: weights as they are stored
  bool plain_products = false;  // of a GPU: without its vendor's library
  bool no_panels = false;       // of a GPU of compute capability 9.0: products as on those before it
  int threads = 0;              // 0: as many as the machine has
  int64_t max_rows = 0;         // rows of one step; 0: suits the device
  int64_t least_rows = 0;       // that it must have where it is to suit the device
  int64_t max_wanted =
      64;             // rows of one step whose logits are wanted: at least the sequences that run at once
  int64_t slots = 0;  // states that will be kept beside the model
  std::string chat_template = "auto";  // or the name of one
  bool allow_nonfinite = false;
  bool quiet = false;  // no progress bar
};

// Adds --model, --vocab, --device, --threads and what belongs to them.
void add_model_flags(CLI::App& app, ModelFlags& flags);
void add_template_flag(CLI::App& app, std::string& choice);

struct LoadedModel {
  std::filesystem::path path;
  const PromptTemplate* prompt_template = &world_template();
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  size_t weight_bytes = 0;  // of the weights as stored
};

// The file or folder that `name` means: a path; a name below the data folder's models/; empty: the bundled
// demo model.
Result<std::filesystem::path> find_model(const std::string& name);
// The template of that name; "auto": by what the model at `path` brings along (choose_prompt_template).
const PromptTemplate& template_of(const std::string& choice, const Checkpoint& checkpoint,
                                  const std::filesystem::path& path);
// The vocabulary that belongs to a model of so many rows, or the file that `vocab` names.
Result<std::unique_ptr<Tokenizer>> tokenizer_of(const Checkpoint& checkpoint,
                                                const std::filesystem::path& path, int64_t rows,
                                                const std::string& vocab);
Result<std::unique_ptr<Ops>> open_device(const ModelFlags& flags);
Result<LoadedModel> load_model(const ModelFlags& flags);

}  // namespace fulmar
