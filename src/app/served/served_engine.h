// A loaded model with its engine, in the form of the server's registry. Destroyed only after
// the last request on it is gone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/core/model_source.h"
#include "app/served/engine_flags.h"
#include "app/served/footing.h"
#include "app/served/session_ladders.h"
#include "engine/engine.h"
#include "server/models/served_model.h"

namespace fulmar {

// A model's name, and its defaults for fields that a request leaves out.
struct ServeAs {
  std::string id;  // empty: the file's name
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
  std::string end_text;  // ends the turns of chats in addition to the usual texts
};

// Returns how many rows of a step a server may want logits of: `slots`, or if that is 0 the most that it may
// choose by itself on these devices.
int64_t wanted_rows(int64_t slots, const DeviceFlags& devices);

// Makes a model's states revocable where drafts need it: rejected rows are rolled back.
void make_revocable(const ServeEngineFlags& flags, ModelFlags& model);

// Returns the most prompt rows of a server's step.
int64_t prefill_chunk(const ServeEngineFlags& flags, const Model& model);

class ServedEngine : public std::enable_shared_from_this<ServedEngine> {
 public:
  static Result<std::shared_ptr<ServedEngine>> open(const ModelFlags& model, const ServeEngineFlags& flags,
                                                    SessionLadders& sessions, const ServeAs& as = {});

  // Does the same with a loaded model that has a tokenizer, for at least flags.slots wanted rows.
  static Result<std::shared_ptr<ServedEngine>> make(LoadedModel loaded, const ServeEngineFlags& flags,
                                                    SessionLadders& sessions, const ServeAs& as = {},
                                                    std::unique_ptr<LoadedModel> draft = nullptr);

  // Returns the model; shares ownership with this.
  ServedModelPtr model() const { return {shared_from_this(), served_.get()}; }
  const ModelConfig& config() const { return loaded_.model->config(); }
  // Returns the free bytes of all its devices together, each counted once.
  size_t memory_free() const { return loaded_.model->memory_free(); }
  Footing footing() const;

 private:
  LoadedModel loaded_;
  std::unique_ptr<LoadedModel> draft_;  // null: no draft model
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<ServedModel> served_;
  int64_t slots_ = 0;
  int64_t kept_ = 0;  // slots for sessions and prompt prefixes
};

// Returns when a file or folder was last written, in unix seconds; 0: unknown.
int64_t file_time(const std::filesystem::path& path);

// Returns a model's facts from its files without loading it; its id is the file's name.
ServedModel facts_of_files(const std::filesystem::path& path, const ModelConfig& config,
                           const PromptTemplate& prompt_template);

// Releases an engine that can no longer be found, once the last request on it is gone.
// Blocks: if the request's own thread dropped the last reference, the engine would end
// on that thread and wait for itself.
void let_go(std::shared_ptr<ServedEngine> served);

}  // namespace fulmar
