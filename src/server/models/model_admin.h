// Loading and removing models and tuned states while the server runs, as the server asks for it. Files and
// devices are the business of whoever implements this.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/models/served_model.h"

namespace fulmar {

struct ModelLoad {
  std::string path;
  std::string name;        // the id under which it is served; empty: the file's
  std::string precision;   // as the client called it; empty: the native one
  std::string vocabulary;  // file; empty: chosen from the model
  std::string end_text;    // ends the turns of chats, besides what usually does; empty: nothing more
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
};

struct StateLoad {
  std::string path;
  std::string name;
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
};

// A mixture of tuned states under one name.
struct MixtureLoad {
  std::vector<std::string> paths;
  bool with_zero_state = false;  // as a further, last member
  std::vector<double> weights;   // one per member; their sum is not 0
  std::string name;
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
};

// A file with a tuned state that a client sent.
struct StateFile {
  std::string id;     // the file name without its extension
  std::string owner;  // who may use it; empty: everybody
  std::string filename;
  int64_t bytes = 0;
  int64_t tensors = 0;
  int64_t layers = 0, heads = 0, head_size = 0;  // of the state; 0: not told
  int64_t created_ms = 0;                        // unix milliseconds
};

// A model in the folder of models, loaded or not.
struct InstalledModel {
  std::string id;    // as it was pulled, or else its name in the folder
  std::string path;  // file or folder
  int64_t bytes = 0;
  int64_t created = 0;   // unix seconds
  ServedModelPtr facts;  // what its files tell of it, without an engine; null: nothing
};

// A model to get from a hub. Both functions are called on a thread of the administrator's.
struct PullJob {
  std::string name;  // OWNER/NAME or OWNER/NAME:FILE
  // How much of a file is there, in bytes; size -1: not told. False breaks off; what has come is kept.
  std::function<bool(const std::string& file, int64_t bytes, int64_t size)> progress;
  // Once, at the end, with what the model is called here, as load_model takes it.
  std::function<void(const Result<std::string>& name)> done;
};

class ModelAdmin {
 public:
  virtual ~ModelAdmin() = default;

  // Runs the job on the administrator's own thread, one after another, where it may take minutes.
  // False when too many wait.
  virtual bool post(std::function<void()> job) = 0;

  // Called within jobs only. Whatever fails leaves everything as it was.

  // What speaks against a load before it is tried: `unsupported`, no such precision, with those that are
  // served; `invalid`, a file outside of the folder for models, or one larger than the free memory, with both
  // numbers; `not_found`.
  virtual Status check_load(const ModelLoad& load) = 0;
  // Blocks until the model serves. A model of the same name is replaced: its running requests finish on the
  // old one, tuned states that fit move over.
  virtual Status load_model(const ModelLoad& load) = 0;
  // Empty: all. False when there is none of that name.
  virtual bool remove_model(const std::string& name) = 0;
  // For the default model.
  virtual Status load_state(const StateLoad& load) = 0;
  virtual Status load_mixture(const MixtureLoad& load) = 0;
  // All, mixtures too.
  virtual void remove_states() = 0;

  // Keeps a file under its id, in the place of the owner's of the same id, and registers it as a tuned state
  // of the default model. `resource` where the owner has too many; `invalid` for names that are no plain file
  // names and for files that do not fit the model.
  virtual Result<StateFile> keep_state_file(const Owner& owner, const std::string& filename,
                                            std::string_view bytes) = 0;
  // The owner's own; whether there was one. An Error where its file cannot be removed: nothing is changed.
  virtual Result<bool> drop_state_file(const Owner& owner, const std::string& id) = 0;

  // Puts this model in the place of those that are loaded; their running requests finish.
  virtual Status load_available(const std::string& id) = 0;

  // From any thread; these three read the disk, files that have not changed once. Whole models only.
  virtual std::vector<InstalledModel> installed() const = 0;
  virtual bool is_installed(const std::string& name) const = 0;
  // What its files say of the model that `name` means, without an engine.
  virtual Result<ServedModelPtr> describe_installed(const std::string& name) const = 0;
  // Within jobs: serves it under its id, behind the models that are loaded: the default stays. Nothing
  // happens where it is loaded already.
  virtual Status load_installed(const std::string& name) = 0;

  // From any thread: what speaks against a pull before it is tried: a name that is none, no hub.
  virtual Status check_pull(const std::string& name) const = 0;
  // From any thread: pulls one after another, beside everything else. False when too many wait.
  virtual bool start_pull(PullJob job) = 0;

  // From any thread, by id: those that the owner may use.
  virtual std::vector<StateFile> state_files(const Owner& owner) const = 0;

  // From any thread: ids of the model files that load_available takes; empty without a folder of models.
  virtual std::vector<std::string> available() const = 0;

  // From any thread: erases a session of the server's own from the store, whatever model it is of, loaded or
  // not.
  virtual Status forget_session(const std::string& /*id*/) { return {}; }
};

}  // namespace fulmar
