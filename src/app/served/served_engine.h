// A loaded model with its engine, as the server's registry wants it. Goes only when the last request on it
// has gone.
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

// What a model is called, and what it does where a request says nothing.
struct ServeAs {
  std::string id;  // empty: the file's name
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
  std::string end_text;  // ends the turns of chats besides the usual texts
};

// Rows of one step whose logits a server may want: `slots`, or as many as it may choose by itself on these
// devices where slots is 0.
int64_t wanted_rows(int64_t slots, const DeviceFlags& devices);

// Makes a model's states fit to be served so: drafted rows are rolled back.
void make_revocable(const ServeEngineFlags& flags, ModelFlags& model);

// Most prompt rows of one step of a server.
int64_t prefill_chunk(const ServeEngineFlags& flags, const Model& model);

class ServedEngine : public std::enable_shared_from_this<ServedEngine> {
 public:
  static Result<std::shared_ptr<ServedEngine>> open(const ModelFlags& model, const ServeEngineFlags& flags,
                                                    SessionLadders& sessions, const ServeAs& as = {});

  // As open, with a model that is loaded already, for at least flags.slots wanted rows, and has a tokenizer.
  static Result<std::shared_ptr<ServedEngine>> make(LoadedModel loaded, const ServeEngineFlags& flags,
                                                    SessionLadders& sessions, const ServeAs& as = {},
                                                    std::unique_ptr<LoadedModel> draft = nullptr);

  // Shares ownership with this.
  ServedModelPtr model() const { return {shared_from_this(), served_.get()}; }
  const ModelConfig& config() const { return loaded_.model->config(); }
  // Bytes on all its devices together, each counted once.
  size_t memory_free() const { return loaded_.model->memory_free(); }
  Footing footing() const;

 private:
  LoadedModel loaded_;
  std::unique_ptr<LoadedModel> draft_;  // null: no draft model
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<ServedModel> served_;
  int64_t slots_ = 0;
  int64_t kept_ = 0;  // slots for sessions and prompt beginnings
};

// When a file or folder was written last, in unix seconds; 0: not told.
int64_t file_time(const std::filesystem::path& path);

// What files tell of a model without loading it; its id is the file's name.
ServedModel facts_of_files(const std::filesystem::path& path, const ModelConfig& config,
                           const PromptTemplate& prompt_template);

// Lets go of an engine that nobody can find any more, as soon as the last request on it has gone. Blocks:
// were the request's own thread to drop the last reference, the engine would end on that thread and wait for
// itself.
void let_go(std::shared_ptr<ServedEngine> served);

}  // namespace fulmar
