// Interface to load and remove models and tuned states while the server runs. The implementation knows files
// and devices; the server does not.
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
  std::string end_text;    // a further text that ends turns of chats; empty: none
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

// A model to download from a hub. Both functions are called on a thread of the ModelAdmin.
struct PullJob {
  std::string name;  // OWNER/NAME or OWNER/NAME:FILE
  // Reports the progress of a file in bytes; size -1: unknown. Return false to stop; what has arrived is
  // kept.
  std::function<bool(const std::string& file, int64_t bytes, int64_t size)> progress;
  // Called once at the end, with the name under which the model is installed, or why it is not.
  std::function<void(const Result<std::string>& name)> done;
};

class ModelAdmin {
 public:
  virtual ~ModelAdmin() = default;

  // Queues a job for the admin thread, which runs one at a time; a job may take minutes.
  // False when too many wait.
  virtual bool post(std::function<void()> job) = 0;

  // Call these within jobs only. A failure leaves everything as it was.

  // Checks a load before it is tried. Fails with `unsupported` for an unknown precision (the text lists those
  // that are served), `invalid` for a file outside the folder for models or larger than the free memory,
  // `not_found` for no such file.
  virtual Status check_load(const ModelLoad& load) = 0;
  // Blocks until the model serves. A model of the same name is replaced: its running requests finish on the
  // old one, tuned states that fit move over.
  virtual Status load_model(const ModelLoad& load) = 0;
  // Removes the model of that name, or all when empty. False when there is none of that name.
  virtual bool remove_model(const std::string& name) = 0;
  // Loads a tuned state for the default model.
  virtual Status load_state(const StateLoad& load) = 0;
  virtual Status load_mixture(const MixtureLoad& load) = 0;
  // Removes all tuned states, mixtures too.
  virtual void remove_states() = 0;

  // Stores a file under its id, replacing the owner's of the same id, and registers it as a tuned state
  // of the default model. `resource` where the owner has too many; `invalid` for names that are no plain file
  // names and for files that do not fit the model.
  virtual Result<StateFile> keep_state_file(const Owner& owner, const std::string& filename,
                                            std::string_view bytes) = 0;
  // Removes a state file of the owner's; false when there was none. Fails, with nothing changed, when its
  // file cannot be deleted.
  virtual Result<bool> drop_state_file(const Owner& owner, const std::string& id) = 0;

  // Tells whether the folder of states differs, for this owner, from what was read of it: another server may
  // share it. From any thread; looks at the disk twice.
  virtual bool states_changed(const Owner& /*owner*/) const { return false; }
  // Reads that folder again: registers what is new and forgets what is gone. Within jobs only.
  virtual void read_states_again() {}

  // Loads this model in place of all loaded ones, whose running requests finish.
  virtual Status load_available(const std::string& id) = 0;

  // Lists the installed models. From any thread, as the next two; they read the disk, but each unchanged file
  // only once. Complete models only.
  virtual std::vector<InstalledModel> installed() const = 0;
  virtual bool is_installed(const std::string& name) const = 0;
  // Describes the model that `name` means from its files, without an engine.
  virtual Result<ServedModelPtr> describe_installed(const std::string& name) const = 0;
  // Loads a model to serve it under its id; the default model stays the default. Within jobs only. Does
  // nothing when it is loaded already.
  virtual Status load_installed(const std::string& name) = 0;

  // Checks a pull before it is tried: fails for an invalid name and when there is no hub. From any thread.
  virtual Status check_pull(const std::string& name) const = 0;
  // Queues a pull; pulls run one after another on a thread of their own. False when too many wait. From any
  // thread.
  virtual bool start_pull(PullJob job) = 0;

  // Lists the state files that the owner may use, sorted by id. From any thread.
  virtual std::vector<StateFile> state_files(const Owner& owner) const = 0;

  // Lists the ids that load_available accepts; empty without a folder of models. From any thread.
  virtual std::vector<std::string> available() const = 0;

  // Erases one of the server's own sessions from the store, whether or not its model is loaded. From any
  // thread.
  virtual Status forget_session(const std::string& /*id*/) { return {}; }
};

}  // namespace fulmar
