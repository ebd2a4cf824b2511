// A server whose models and states can be loaded by name, without files.
#pragma once

#include "server/server_rig.h"

namespace fulmar::testing {

// Loads nothing: names that hold "bad" fail, others appear in the registry.
class NamesOnly : public ModelAdmin {
 public:
  explicit NamesOnly(ServerRig& rig) : rig_(rig) {}
  bool post(std::function<void()> job) override {
    job();
    return true;
  }
  Status check_load(const ModelLoad& load) override {
    if (load.precision != "nonsense") return {};
    return Error{ErrorKind::unsupported, "model_strategy: 'nonsense'"};
  }
  Status load_model(const ModelLoad& load) override {
    if (load.path == "bad") return Error{ErrorKind::not_found, "no file 'bad'"};
    auto facts = std::make_shared<ServedModel>(*rig_.model);
    facts->id = load.name;
    facts->end_text = load.end_text;
    if (!load.precision.empty()) facts->runtime = "nearest to " + load.precision;
    facts->default_temperature = load.default_temperature;
    rig_.models.add(facts);
    return {};
  }
  bool remove_model(const std::string& name) override {
    bool found = false;
    for (const ServedModelPtr& model : rig_.models.all()) {
      if (name.empty() || model->id == name) found |= rig_.models.remove(model->id);
    }
    return found;
  }
  Status load_state(const StateLoad& load) override {
    const ServedModelPtr model = rig_.models.default_model();
    if (!model || load.path == "bad") return Error{ErrorKind::corrupt, "bad state"};
    rig_.models.add_state(model->id, {.name = load.name,
                                      .default_temperature = load.default_temperature,
                                      .default_top_p = load.default_top_p});
    return {};
  }
  Status load_mixture(const MixtureLoad& load) override {
    TunedState state{.name = load.name,
                     .default_temperature = load.default_temperature,
                     .default_top_p = load.default_top_p};
    for (const std::string& path : load.paths) {
      if (path == "bad") return Error{ErrorKind::corrupt, "bad state"};
      state.mixture.push_back({path, load.weights[state.mixture.size()]});
    }
    if (load.with_zero_state) state.mixture.push_back({"", load.weights.back()});
    rig_.models.add_state(rig_.models.default_model()->id, std::move(state));
    return {};
  }
  void remove_states() override { rig_.models.clear_states(); }
  Result<StateFile> keep_state_file(const Owner& owner, const std::string& filename,
                                    std::string_view bytes) override {
    if (bytes == "bad") return Error{ErrorKind::invalid, "bad state"};
    (void)drop_state_file(owner, served_id(filename));
    files_.push_back({.id = served_id(filename),
                      .owner = owner.name,
                      .filename = filename,
                      .bytes = static_cast<int64_t>(bytes.size()),
                      .tensors = 2,
                      .layers = 2,
                      .heads = 3,
                      .head_size = 4,
                      .created_ms = 5678});
    rig_.models.add_state(rig_.model->id, {.name = files_.back().id, .owner = owner.name});
    return files_.back();
  }
  Result<bool> drop_state_file(const Owner& owner, const std::string& id) override {
    if (disk_fails) return Error{ErrorKind::io, "it cannot be removed"};
    rig_.models.remove_state(owner.name, id);
    return std::erase_if(
               files_, [&](const StateFile& file) { return file.id == id && file.owner == owner.name; }) > 0;
  }
  Status forget_session(const std::string& id) override {
    forgotten.push_back(id);
    return {};
  }
  std::vector<StateFile> state_files(const Owner& owner) const override {
    std::vector<StateFile> files = files_;
    std::erase_if(files, [&](const StateFile& file) { return !owner.may_use(file.owner); });
    return files;
  }
  std::vector<std::string> available() const override { return {"one", "two"}; }
  // One model, called owner/pulled and pulled; loading it takes the facts of the rig's own.
  std::vector<InstalledModel> installed() const override {
    return {{.id = "owner/pulled",
             .path = "/models/pulled",
             .bytes = 77,
             .created = 5,
             .facts = *describe_installed("pulled")}};
  }
  bool is_installed(const std::string& name) const override {
    return name == "owner/pulled" || name == "pulled" || name == "owner/pulled:latest";
  }
  Result<ServedModelPtr> describe_installed(const std::string& name) const override {
    if (!is_installed(name)) return Error{ErrorKind::not_found, "no such model"};
    ServedModel facts;
    facts.id = "owner/pulled", facts.architecture = "rwkv7", facts.parameters = 1'500'000'000;
    return ServedModelPtr(std::make_shared<ServedModel>(facts));
  }
  Status load_installed(const std::string& name) override {
    ++loads;
    if (!load_end.ok()) return load_end;
    auto facts = std::make_shared<ServedModel>(*rig_.model);
    facts->id = "owner/pulled", facts->path = "/models/" + name.substr(name.find('/') + 1);
    rig_.models.add_behind(facts);
    return {};
  }
  int loads = 0;
  std::vector<std::string> forgotten;
  bool disk_fails = false;  // nothing can be removed
  Status load_end;
  Status check_pull(const std::string& name) const override {
    if (name == "owner/tiny") return {};
    return Error{ErrorKind::invalid, "'" + name + "' names no model of a hub"};
  }
  // Tells of two files in three steps, then ends as `pull_end` says.
  bool start_pull(PullJob job) override {
    job.progress("config.json", 10, 10);
    job.progress("model.safetensors", 500, 1000);
    job.progress("model.safetensors", 1000, 1000);
    job.done(pull_end);
    return true;
  }
  Result<std::string> pull_end = std::string("tiny.safetensors");
  Status load_available(const std::string& id) override {
    if (id == "one") return {};
    return Error{ErrorKind::not_found, "no such model"};
  }

 private:
  ServerRig& rig_;
  std::vector<StateFile> files_;
};

class AdminRig : public ServerRig {
 public:
  explicit AdminRig(ServerOptions options = {}) : admin(*this) {
    server.reset();
    options.port = 0;
    auto started = Server::start(options, models, &admin);
    EXPECT_TRUE(started.ok());
    server = std::move(*started);
  }
  ~AdminRig() { server.reset(); }

  NamesOnly admin;
};

}  // namespace fulmar::testing
