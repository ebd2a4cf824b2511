// Connects files, models and the server's registry while the server runs: the administrator behind /loadmodel
// and similar routes. Knows no route.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "app/models/model_pulls.h"
#include "app/serve/model_descriptions.h"
#include "app/serve/state_folder.h"
#include "app/served/served_engine.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "files/time_state.h"
#include "server/models/model_admin.h"

namespace fulmar {

struct AdminOptions {
  std::filesystem::path root;    // files that clients name must lie below it; empty: anywhere
  std::filesystem::path folder;  // of model files that clients may switch between; empty: none
  int64_t most_pull_bytes = int64_t{512} << 30;
  std::filesystem::path states;  // of tuned states that clients send; empty: a temporary folder
};

// Returns the file that a client's `name` means, or with `folder_too` perhaps a folder, symbolic links
// resolved. With a root, relative names start there and anything outside is refused.
Result<std::filesystem::path> confined_path(const std::filesystem::path& root, const std::string& name,
                                            bool folder_too = false);

// Fails (unsupported), listing the known names, for a precision that is no
// strategy (files/strategy.h).
Status check_precision(const std::string& name);

class LocalAdmin : public ModelAdmin {
 public:
  // Starts the thread of jobs. Registry and ladders must outlive it. `model` and `engine` apply to every
  // model, but for its file and vocabulary.
  LocalAdmin(ModelRegistry& models, SessionLadders& sessions, ModelFlags model, ServeEngineFlags engine,
             AdminOptions options);
  // Waits for the running job; those that wait are dropped.
  ~LocalAdmin() override;

  // Serves a model that was opened elsewhere. Call before jobs are posted, or within one.
  void adopt(std::shared_ptr<ServedEngine> served);

  // Returns the error, if any, of listing the states that clients have sent.
  const Status& states_listed() const { return files_.listed(); }

  bool post(std::function<void()> job) override;
  Status check_load(const ModelLoad& load) override;
  Status load_model(const ModelLoad& load) override;
  bool remove_model(const std::string& name) override;
  Status load_state(const StateLoad& load) override;
  Status load_mixture(const MixtureLoad& load) override;
  void remove_states() override;
  Result<StateFile> keep_state_file(const Owner& owner, const std::string& filename,
                                    std::string_view bytes) override;
  Result<bool> drop_state_file(const Owner& owner, const std::string& id) override;
  bool states_changed(const Owner& owner) const override { return files_.changed(owner.name); }
  void read_states_again() override;
  Status forget_session(const std::string& id) override { return sessions_.erase_of_all_models(id); }
  std::vector<StateFile> state_files(const Owner& owner) const override;
  Status load_available(const std::string& id) override;
  std::vector<std::string> available() const override;
  std::vector<InstalledModel> installed() const override;
  bool is_installed(const std::string& name) const override;
  Result<ServedModelPtr> describe_installed(const std::string& name) const override;
  Status load_installed(const std::string& name) override;
  Status check_pull(const std::string& name) const override;
  bool start_pull(PullJob job) override { return pulls_.start(std::move(job)); }
  // Cancels and answers all pulls, since the server ends. From any thread.
  void end_pulls() { pulls_.end(); }

 private:
  using Numbers = std::map<std::string, TimeState>;
  struct Loaded {
    std::shared_ptr<ServedEngine> served;
    // By name in the engine, members of mixtures too; kept to carry over to a model that replaces this one.
    Numbers states;
  };

  void work();
  Result<ServedModelPtr> describe(const InstalledFiles& files) const;
  Status check_memory(const std::filesystem::path& path) const;
  // Returns the path of a file that a client names, or of a model in the folder of models.
  Result<std::filesystem::path> named_path(const std::string& name) const;
  Status open(const std::filesystem::path& path, const ModelLoad& load, bool behind = false);
  void add_loaded(std::shared_ptr<ServedEngine> served, bool behind, const Loaded& before,
                  const std::vector<TunedState>& facts);
  Status add_numbers(Loaded& loaded, Numbers numbers);
  Status add_state(Loaded& loaded, TunedState facts, TimeState state);
  void forget_state(const std::string& owner, const std::string& id);
  void take_back(Loaded& loaded, const std::string& name, std::optional<TimeState> before);
  Status carry_state(const Loaded& from, const TunedState& state, Loaded& to);
  std::vector<TunedState> carry_states(const Loaded& from, const std::vector<TunedState>& facts, Loaded& to);
  void retire(std::shared_ptr<ServedEngine> served);
  // Ends retired models whose last request is gone; never on the engine's own thread.
  void bury();

  ModelRegistry& models_;
  SessionLadders& sessions_;
  const ModelFlags model_flags_;
  const ServeEngineFlags engine_flags_;
  const AdminOptions options_;
  StateFolder files_;
  ModelPulls pulls_;
  mutable ModelDescriptions descriptions_;
  std::vector<Loaded> loaded_;  // in order of loading
  std::vector<std::shared_ptr<ServedEngine>> retired_;
  Mailbox<std::function<void()>> jobs_;
  Thread thread_;
};

}  // namespace fulmar
