#include "app/serve/model_admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "app/core/installed_models.h"
#include "base/log.h"
#include "files/checkpoint.h"
#include "files/files_root.h"
#include "files/identify.h"
#include "files/mapped_file.h"
#include "files/model_files.h"
#include "files/strategy.h"

namespace fulmar {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostJobs = 16;
constexpr std::chrono::milliseconds kBurialRound{20};
// Between a mixture's name and the number of a member: no name that a client would give.
constexpr char kMemberMark = '\x1e';

// Returns whether the path is a file of weights, or a folder with one model.
bool is_model(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return find_model_files(path).ok();
  return is_weights_name(path.filename().string());
}

// Returns the bytes of all files that a model is read from; 0 if they are unknown.
uintmax_t bytes_of(const fs::path& path) {
  const auto files = find_model_files(path);
  uintmax_t bytes = 0;
  std::error_code error;
  for (const fs::path& file : files.ok() ? files->weights : std::vector<fs::path>()) {
    const uintmax_t size = fs::file_size(file, error);
    if (!error) bytes += size;
  }
  return bytes;
}

// Returns what a client may know of a file that does not load: not its content, since a client that may name
// a file need not be allowed to read it.
Error for_clients(const Error& error, const ModelLoad& load) {
  if (error.kind != ErrorKind::corrupt && error.kind != ErrorKind::invalid) return error;
  const std::string with =
      load.vocabulary.empty() ? "" : fmt::format(" with vocabulary '{}'", load.vocabulary);
  return {error.kind,
          fmt::format("'{}'{} cannot be loaded as a model; the server's log says why", load.path, with)};
}

}  // namespace

Result<fs::path> confined_path(const fs::path& root, const std::string& name, bool folder_too) {
  return path_below({root, "--model-root", "the folder for models"}, name, folder_too);
}

Status check_precision(const std::string& name) {
  const auto strategy = strategy_named(name);
  if (strategy.ok()) return {};
  return Error{strategy.error().kind, "model_strategy: " + strategy.error().text};
}

LocalAdmin::LocalAdmin(ModelRegistry& models, SessionLadders& sessions, ModelFlags model,
                       ServeEngineFlags engine, AdminOptions options)
    : models_(models),
      sessions_(sessions),
      model_flags_(std::move(model)),
      engine_flags_(std::move(engine)),
      options_(std::move(options)),
      files_(options_.states),
      pulls_(options_.folder.empty() ? fs::path(options_.root) : fs::path(options_.folder),
             options_.most_pull_bytes),
      jobs_(kMostJobs),
      thread_("administration", [this] { work(); }) {}

LocalAdmin::~LocalAdmin() {
  jobs_.close();
  thread_.join();
  for (Loaded& loaded : loaded_) {
    models_.remove(loaded.served->model()->id);
    let_go(std::move(loaded.served));
  }
  for (auto& served : retired_) let_go(std::move(served));
}

void LocalAdmin::work() {
  while (true) {
    auto jobs = retired_.empty() ? jobs_.wait_all(std::chrono::hours(1)) : jobs_.wait_all(kBurialRound);
    for (const auto& job : jobs) {
      if (jobs_.closed()) return;
      try {
        job();
      } catch (const std::exception& failure) {  // out of memory, most likely: it ends this job alone
        spdlog::error("administration failed reason=\"{}\"", failure.what());
      }
    }
    if (jobs_.closed()) return;
    bury();
  }
}

bool LocalAdmin::post(std::function<void()> job) { return jobs_.put(std::move(job)); }

void LocalAdmin::adopt(std::shared_ptr<ServedEngine> served) { add_loaded(std::move(served), false, {}, {}); }

// Adds a model to the registry once it has all of its states, so that no client's row takes a slot that a
// state is prepared in. loaded_ has the registry's order: the default model is the last.
void LocalAdmin::add_loaded(std::shared_ptr<ServedEngine> served, bool behind, const Loaded& before,
                            const std::vector<TunedState>& facts) {
  Loaded loaded{.served = std::move(served), .states = {}};
  std::vector<TunedState> states;
  if (before.served) states = carry_states(before, facts, loaded);
  for (StateFolder::Kept& kept : files_.fitting(loaded.served->config())) {
    const TunedState state{.name = kept.file.id, .owner = kept.file.owner};
    if (loaded.states.contains(state.engine_name())) continue;
    const Status added = add_numbers(loaded, {{state.engine_name(), std::move(kept.state)}});
    if (added.ok()) states.push_back(state);
    if (!added) spdlog::warn("state file '{}' not registered: {}", kept.file.filename, added.error().text);
  }
  const ServedModelPtr model = loaded.served->model();
  loaded_.insert(behind ? loaded_.begin() : loaded_.end(), std::move(loaded));
  behind ? models_.add_behind(model, std::move(states)) : models_.add(model, std::move(states));
}

Status LocalAdmin::check_load(const ModelLoad& load) {
  FULMAR_TRY(check_precision(load.precision));
  FULMAR_ASSIGN(const fs::path path, named_path(load.path));
  return check_memory(path);
}

Result<fs::path> LocalAdmin::named_path(const std::string& name) const {
  auto path = confined_path(options_.root, name, true);
  if (path.ok()) return path;
  const auto installed = find_installed(models_folder(), name);
  return installed ? Result<fs::path>(installed->path) : path;
}

Status LocalAdmin::load_model(const ModelLoad& load) {
  FULMAR_ASSIGN(const fs::path path, named_path(load.path));
  return open(path, load);
}

// Fails if weights, which take about the file's bytes, do not fit; states and
// workspace are checked by loading.
Status LocalAdmin::check_memory(const fs::path& path) const {
  if (loaded_.empty()) return {};
  const auto wanted = static_cast<size_t>(bytes_of(path));
  const size_t free = loaded_.back().served->memory_free();
  if (wanted <= free) return {};
  return Error{ErrorKind::invalid, fmt::format("'{}' needs {} MiB beside the loaded models; {} MiB are free",
                                               path.filename().string(), wanted >> 20, free >> 20)};
}

Status LocalAdmin::open(const fs::path& path, const ModelLoad& load, bool behind) {
  ModelFlags flags = model_flags_;
  flags.model = path.string();
  flags.quiet = true;
  if (!load.precision.empty()) flags.quantize = load.precision;
  if (!load.vocabulary.empty()) {
    FULMAR_ASSIGN(const fs::path vocabulary, confined_path(options_.root, load.vocabulary));
    flags.vocab = vocabulary.string();
  }
  const ServeAs as{load.name, load.default_temperature, load.default_top_p, load.end_text};
  auto opened = ServedEngine::open(flags, engine_flags_, sessions_, as);
  if (!opened.ok()) {
    spdlog::warn("model not loaded: {}", opened.error().text);
    return for_clients(opened.error(), load);
  }
  auto served = std::move(*opened);
  const std::string id = served->model()->id;
  const std::vector<TunedState> facts = models_.states(server_itself(), id);
  const ServedEngine* const newest = served.get();
  const Loaded none;
  const auto old = std::find_if(loaded_.begin(), loaded_.end(),
                                [&](const Loaded& one) { return one.served->model()->id == id; });
  add_loaded(std::move(served), behind, old == loaded_.end() ? none : *old, facts);
  // Only now: earlier failures keep the old model.
  const auto replaced = std::find_if(loaded_.begin(), loaded_.end(), [&](const Loaded& one) {
    return one.served->model()->id == id && one.served.get() != newest;
  });
  if (replaced != loaded_.end()) {
    std::shared_ptr<ServedEngine> last = std::move(replaced->served);
    loaded_.erase(replaced);
    retire(std::move(last));
  }
  spdlog::info("model loaded id='{}' file={}", id, path.string());
  return {};
}

// Returns the states that were carried over.
std::vector<TunedState> LocalAdmin::carry_states(const Loaded& from, const std::vector<TunedState>& facts,
                                                 Loaded& to) {
  std::vector<TunedState> all;
  const ModelConfig &was = from.served->config(), &is = to.served->config();
  if (was.n_layer != is.n_layer || was.n_head != is.n_head || was.head_size != is.head_size) return all;
  for (const TunedState& state : facts) {
    const Status carried = carry_state(from, state, to);
    if (carried.ok()) all.push_back(state);
    if (!carried) spdlog::warn("tuned state '{}' not carried over: {}", state.name, carried.error().text);
  }
  return all;
}

Status LocalAdmin::carry_state(const Loaded& from, const TunedState& state, Loaded& to) {
  std::vector<std::string> names{state.engine_name()};
  if (!state.mixture.empty()) names.clear();
  for (const MixtureMember& member : state.mixture) {
    if (!member.state.empty()) names.push_back(member.state);
  }
  Numbers numbers;
  for (const std::string& name : names) {
    const auto found = from.states.find(name);
    if (found == from.states.end()) return Error{ErrorKind::not_found, "its numbers are gone"};
    numbers.insert(*found);
  }
  return add_numbers(to, std::move(numbers));
}

bool LocalAdmin::remove_model(const std::string& name) {
  bool found = false;
  for (size_t i = loaded_.size(); i-- > 0;) {
    const std::string id = loaded_[i].served->model()->id;
    if (!name.empty() && name != id) continue;
    found = true;
    models_.remove(id);
    retire(std::move(loaded_[i].served));
    loaded_.erase(loaded_.begin() + static_cast<std::ptrdiff_t>(i));
    spdlog::info("model removed id='{}'", id);
  }
  return found;
}

Status LocalAdmin::load_state(const StateLoad& load) {
  if (loaded_.empty()) return Error{ErrorKind::unavailable, "no model is loaded"};
  FULMAR_ASSIGN(const fs::path path, confined_path(options_.root, load.path));
  Loaded& loaded = loaded_.back();
  FULMAR_ASSIGN(TimeState state, read_time_state(path, loaded.served->config()));
  return add_state(loaded,
                   {.name = load.name,
                    .default_temperature = load.default_temperature,
                    .default_top_p = load.default_top_p},
                   std::move(state));
}

// Loads a mixture. Every file is read before anything changes, and the engine takes all members or none.
Status LocalAdmin::load_mixture(const MixtureLoad& load) {
  if (loaded_.empty()) return Error{ErrorKind::unavailable, "no model is loaded"};
  Loaded& loaded = loaded_.back();
  TunedState facts{.name = load.name,
                   .default_temperature = load.default_temperature,
                   .default_top_p = load.default_top_p};
  Numbers members;
  for (const std::string& file : load.paths) {
    FULMAR_ASSIGN(const fs::path path, confined_path(options_.root, file));
    FULMAR_ASSIGN(TimeState state, read_time_state(path, loaded.served->config()));
    const std::string member = fmt::format("{}{}{}", load.name, kMemberMark, facts.mixture.size());
    members.emplace(member, std::move(state));
    facts.mixture.push_back({member, load.weights[facts.mixture.size()]});
  }
  FULMAR_TRY(add_numbers(loaded, std::move(members)));
  if (load.with_zero_state) facts.mixture.push_back({"", load.weights.back()});
  models_.add_state(loaded.served->model()->id, std::move(facts));
  return {};
}

// Adds all of them or, if that fails, none.
Status LocalAdmin::add_numbers(Loaded& loaded, Numbers numbers) {
  FULMAR_TRY(loaded.served->model()->engine->add_states(numbers));
  numbers.merge(loaded.states);  // of equal names the new ones stay
  loaded.states = std::move(numbers);
  return {};
}

Status LocalAdmin::add_state(Loaded& loaded, TunedState facts, TimeState state) {
  FULMAR_TRY(add_numbers(loaded, {{facts.engine_name(), std::move(state)}}));
  models_.add_state(loaded.served->model()->id, std::move(facts));
  return {};
}

Result<StateFile> LocalAdmin::keep_state_file(const Owner& owner, const std::string& filename,
                                              std::string_view bytes) {
  if (loaded_.empty()) return Error{ErrorKind::unavailable, "No model loaded"};
  Loaded& loaded = loaded_.back();
  FULMAR_ASSIGN(StateFolder::Incoming incoming,
                files_.take_in(owner.name, filename, bytes, loaded.served->config()));
  const StateFile file = incoming.file();
  const TunedState facts{.name = file.id, .owner = owner.name};
  const auto known = loaded.states.find(facts.engine_name());
  std::optional<TimeState> before;
  if (known != loaded.states.end()) before = known->second;
  // The engine may refuse it, the folder hardly: the folder comes last.
  FULMAR_TRY(add_numbers(loaded, {{facts.engine_name(), incoming.state()}}));
  if (const Status kept = files_.keep(incoming); !kept.ok()) {
    take_back(loaded, facts.engine_name(), std::move(before));
    return kept.error();
  }
  models_.add_state(loaded.served->model()->id, facts);
  return file;
}

// Restores the engine's state of that name to what it was before.
void LocalAdmin::take_back(Loaded& loaded, const std::string& name, std::optional<TimeState> before) {
  if (before && add_numbers(loaded, {{name, std::move(*before)}}).ok()) return;
  loaded.states.erase(name);
  loaded.served->model()->engine->remove_state(name);
}

Result<bool> LocalAdmin::drop_state_file(const Owner& owner, const std::string& id) {
  if (files_.changed(owner.name)) read_states_again();
  FULMAR_ASSIGN(const bool gone, files_.drop(owner.name, id));
  if (gone) forget_state(owner.name, id);
  return gone;
}

void LocalAdmin::forget_state(const std::string& owner, const std::string& id) {
  models_.remove_state(owner, id);
  const std::string name = session_text(owner, id);
  for (Loaded& loaded : loaded_) {
    if (loaded.states.erase(name) > 0) loaded.served->model()->engine->remove_state(name);
  }
}

void LocalAdmin::read_states_again() {
  const auto changes = files_.list_again();
  if (!changes.ok()) return spdlog::error("states not read again: {}", changes.error().text);
  for (const StateFile& file : changes->gone) {
    const bool replaced =
        std::any_of(changes->fresh.begin(), changes->fresh.end(),
                    [&](const StateFile& fresh) { return fresh.id == file.id && fresh.owner == file.owner; });
    if (!replaced) forget_state(file.owner, file.id);
  }
  for (const StateFile& file : changes->fresh) {
    for (Loaded& loaded : loaded_) {
      auto state = files_.read(file, loaded.served->config());
      Status added = state.ok() ? Status() : Status(state.error());
      if (added.ok()) added = add_state(loaded, {.name = file.id, .owner = file.owner}, std::move(*state));
      if (!added.ok()) spdlog::warn("state file '{}' not registered: {}", file.filename, added.error().text);
    }
  }
}

void LocalAdmin::remove_states() {
  models_.clear_states();
  for (Loaded& loaded : loaded_) {
    for (const auto& [name, state] : loaded.states) loaded.served->model()->engine->remove_state(name);
    loaded.states.clear();
  }
}

std::vector<StateFile> LocalAdmin::state_files(const Owner& owner) const {
  std::vector<StateFile> files = files_.list();
  std::erase_if(files, [&](const StateFile& file) { return !owner.may_use(file.owner); });
  return files;
}

std::vector<std::string> LocalAdmin::available() const {
  std::vector<std::string> ids;
  if (options_.folder.empty()) return ids;
  std::error_code error;
  for (fs::directory_iterator file(options_.folder, error), end; !error && file != end;
       file.increment(error)) {
    if (is_model(file->path())) ids.push_back(served_id(file->path().string()));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<InstalledModel> LocalAdmin::installed() const {
  std::vector<InstalledModel> models;
  for (const InstalledFiles& files : installed_models(models_folder())) {
    if (files.partial) continue;
    const auto facts = describe(files);
    models.push_back({.id = files.pulled_as.empty() ? files.name : files.pulled_as,
                      .path = files.path.string(),
                      .bytes = static_cast<int64_t>(files.bytes),
                      .created = file_time(files.path),
                      .facts = facts.ok() ? *facts : nullptr});
  }
  return models;
}

bool LocalAdmin::is_installed(const std::string& name) const {
  return find_installed(models_folder(), name).has_value();
}

Result<ServedModelPtr> LocalAdmin::describe_installed(const std::string& name) const {
  const auto files = find_installed(models_folder(), name);
  if (!files) return Error{ErrorKind::not_found, fmt::format("model '{}' not found", name)};
  return describe(*files);
}

Result<ServedModelPtr> LocalAdmin::describe(const InstalledFiles& files) const {
  return descriptions_.of(files, [&]() -> Result<ServedModelPtr> {
    const FileWatch watch;  // a file lost meanwhile must not cost the server
    FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(files.path));
    FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
    auto model = std::make_shared<ServedModel>(
        facts_of_files(files.path, config, template_of(model_flags_.chat_template, *checkpoint, files.path)));
    model->id = files.pulled_as.empty() ? files.name : files.pulled_as;
    model->weight_bytes = static_cast<int64_t>(files.bytes);
    return ServedModelPtr(std::move(model));
  });
}

Status LocalAdmin::load_installed(const std::string& name) {
  const auto files = find_installed(models_folder(), name);
  if (!files) return Error{ErrorKind::not_found, fmt::format("model '{}' not found", name)};
  const std::string id = files->pulled_as.empty() ? files->name : files->pulled_as;
  if (models_.find(server_itself(), id, true)) return {};
  FULMAR_TRY(check_memory(files->path));
  return open(files->path, {.path = name, .name = id}, true);
}

Status LocalAdmin::check_pull(const std::string& name) const {
  FULMAR_TRY(parse_hub_name(name));
  FULMAR_TRY(usual_pull_options({}));
  return {};
}

Status LocalAdmin::load_available(const std::string& id) {
  const std::vector<std::string> ids = available();
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
    return Error{ErrorKind::not_found,
                 fmt::format("The model '{}' is not among those available: {}", id, fmt::join(ids, ", "))};
  }
  std::vector<std::string> endings{""};
  endings.insert(endings.end(), std::begin(kWeightsEndings), std::end(kWeightsEndings));
  for (const std::string& ending : endings) {
    const std::string path = (options_.folder / (id + ending)).string();
    std::error_code error;
    if (!fs::exists(path, error) || !is_model(path)) continue;
    FULMAR_ASSIGN(const fs::path file, confined_path(options_.root, fs::absolute(path).string(), true));
    FULMAR_TRY(open(file, {.path = path, .name = id}));
    std::vector<std::string> others;
    for (const Loaded& loaded : loaded_) {
      if (loaded.served->model()->id != id) others.push_back(loaded.served->model()->id);
    }
    for (const std::string& other : others) remove_model(other);
    return {};
  }
  return Error{ErrorKind::not_found, fmt::format("The file of '{}' has gone", id)};
}

void LocalAdmin::retire(std::shared_ptr<ServedEngine> served) { retired_.push_back(std::move(served)); }

void LocalAdmin::bury() {
  std::erase_if(retired_, [&](const std::shared_ptr<ServedEngine>& served) {
    if (served.use_count() > 1) return false;
    models_.retire(*served->model());
    return true;
  });
}

}  // namespace fulmar
