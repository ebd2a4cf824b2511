// Resolves names and keeps the list of loaded models.
#include "server/models/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "server/models/engine_figures.h"

namespace fulmar {
namespace {

constexpr std::string_view kGeneralNames[] = {"", "default", "rwkv", "rwkv7", "rwkv-7"};
constexpr std::string_view kLatest = ":latest";  // the tag that Ollama's clients add
constexpr std::string_view kExtensions[] = {".pth", ".safetensors", ".st", ".gguf", ".rwkvq"};

bool is_general(std::string_view name) {
  return std::find(std::begin(kGeneralNames), std::end(kGeneralNames), name) != std::end(kGeneralNames);
}

// The names of a model, from the one that clients see in lists to the one that its file suggests.
using Named = bool (*)(std::string_view name, const ServedModel& model);
constexpr Named kNamed[] = {
    [](std::string_view name, const ServedModel& model) { return name == model.id; },
    [](std::string_view name, const ServedModel& model) { return name == model.view_name; },
    [](std::string_view name, const ServedModel& model) { return name == served_id(model.path); },
};

bool names(std::string_view name, const ServedModel& model) {
  return !name.empty() && std::any_of(std::begin(kNamed), std::end(kNamed),
                                      [&](const Named named) { return named(name, model); });
}

// Returns the part of `name` before " <state>"; empty when it does not end so.
std::string_view without_state(std::string_view name, std::string_view state) {
  if (name.size() < state.size() + 2 || !name.ends_with(state)) return {};
  name.remove_suffix(state.size());
  return name.back() == ' ' ? name.substr(0, name.size() - 1) : std::string_view();
}

// A copy of the facts that holds on to `model` for as long as it lives itself.
struct Variant {
  ServedModelPtr model;
  ServedModel facts;
};

ServedModelPtr started_from(const ServedModelPtr& model, const TunedState& state) {
  auto started = std::make_shared<Variant>(Variant{model, *model});
  ServedModel& facts = started->facts;
  facts.plain = model;
  facts.initial_state = state.engine_name();
  facts.mixture = state.mixture;
  if (state.default_temperature) facts.default_temperature = state.default_temperature;
  if (state.default_top_p) facts.default_top_p = state.default_top_p;
  return {started, &facts};
}

}  // namespace

std::string served_id(std::string_view path) {
  std::string_view name = path.substr(path.find_last_of('/') + 1);
  for (const std::string_view extension : kExtensions) {
    if (name.size() > extension.size() && name.ends_with(extension)) {
      name.remove_suffix(extension.size());
      break;
    }
  }
  return std::string(name);
}

Result<std::vector<MixtureMember>> weighted(std::vector<MixtureMember> members,
                                            const std::vector<double>& weights) {
  if (weights.size() > members.size()) {
    return Error{ErrorKind::invalid,
                 fmt::format("{} weights for a mixture of {} states", weights.size(), members.size())};
  }
  double sum = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].weight = i < weights.size() ? weights[i] : 0.0;
    sum += members[i].weight;
  }
  if (sum == 0) return Error{ErrorKind::invalid, "the weights of a mixture add up to 0"};
  return members;
}

ServedModelPtr with_mixture(const ServedModelPtr& model, std::vector<MixtureMember> mixture) {
  auto variant = std::make_shared<Variant>(Variant{model, *model});
  variant->facts.mixture = std::move(mixture);
  return {variant, &variant->facts};
}

ServedModelPtr with_adapter(const ServedModelPtr& model, std::shared_ptr<const AdapterChoice> adapter,
                            const std::string& initial_state) {
  auto variant = std::make_shared<Variant>(Variant{model, *model});
  ServedModel& facts = variant->facts;
  if (facts.plain.expired()) facts.plain = model;
  facts.adapter = std::move(adapter);
  if (!initial_state.empty()) facts.initial_state = initial_state;
  return {variant, &facts};
}

void ModelRegistry::add(ServedModelPtr model, std::vector<TunedState> states) {
  std::lock_guard lock(mutex_);
  take_out(model->id);
  models_.push_back({std::move(model), std::move(states)});
}

void ModelRegistry::add_behind(ServedModelPtr model, std::vector<TunedState> states) {
  std::lock_guard lock(mutex_);
  std::erase_if(models_, [&](const ModelAndStates& old) { return old.model->id == model->id; });
  models_.insert(models_.begin(), {std::move(model), std::move(states)});
}

bool ModelRegistry::remove(std::string_view id) {
  std::lock_guard lock(mutex_);
  return take_out(id);
}

void ModelRegistry::retire(const ServedModel& model) {
  std::lock_guard lock(mutex_);
  const auto erased = std::erase_if(
      leaving_, [&](const std::weak_ptr<const ServedModel>& one) { return one.lock().get() == &model; });
  if (erased > 0 && !is_loaded(model.engine)) retired_ = add_up(retired_, counters_of(model.engine->stats()));
}

const TunedState* ModelRegistry::pick_state(const Owner& owner, const ModelAndStates& entry,
                                            FunctionRef<bool(const TunedState&)> fits) {
  const TunedState* found = nullptr;
  for (const TunedState& state : entry.states) {
    if (!owner.may_use(state.owner) || !fits(state)) continue;
    if (state.owner == owner.name) return &state;
    if (!found) found = &state;
  }
  return found;
}

ServedModelPtr ModelRegistry::find(const Owner& owner, std::string_view name, bool strict) const {
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  std::lock_guard lock(mutex_);
  for (const Named named : kNamed) {  // a listed id goes before what a later model's file is called
    for (auto entry = models_.rbegin(); entry != models_.rend() && !name.empty(); ++entry) {
      if (named(name, *entry->model)) return entry->model;
    }
  }
  for (auto entry = models_.rbegin(); entry != models_.rend(); ++entry) {
    const TunedState* state = pick_state(owner, *entry, [&](const TunedState& one) {
      const std::string_view model = without_state(name, one.name);
      const bool is_default = entry == models_.rbegin() && !model.empty() && is_general(model);
      return is_default || names(model, *entry->model);
    });
    if (state) return started_from(entry->model, *state);
  }
  if (models_.empty() || (strict && !is_general(name))) return nullptr;
  return models_.back().model;
}

bool ModelRegistry::add_state(std::string_view id, TunedState state) {
  std::lock_guard lock(mutex_);
  const auto entry = std::find_if(models_.begin(), models_.end(),
                                  [&](const ModelAndStates& one) { return one.model->id == id; });
  if (entry == models_.end()) return false;
  std::erase_if(entry->states,
                [&](const TunedState& old) { return old.engine_name() == state.engine_name(); });
  entry->states.push_back(std::move(state));
  return true;
}

bool ModelRegistry::change_state(const Owner& owner, std::string_view name,
                                 const std::function<void(TunedState&)>& change) {
  std::lock_guard lock(mutex_);
  for (auto entry = models_.rbegin(); entry != models_.rend(); ++entry) {
    for (TunedState& state : entry->states) {
      if (state.owner != owner.name) continue;
      if (name != state.name && !names(without_state(name, state.name), *entry->model)) continue;
      change(state);
      return true;
    }
  }
  return false;
}

void ModelRegistry::remove_state(std::string_view owner, std::string_view name) {
  std::lock_guard lock(mutex_);
  for (ModelAndStates& entry : models_) {
    std::erase_if(entry.states,
                  [&](const TunedState& state) { return state.owner == owner && state.name == name; });
  }
}

void ModelRegistry::clear_states() {
  std::lock_guard lock(mutex_);
  for (ModelAndStates& entry : models_) entry.states.clear();
}

std::vector<TunedState> ModelRegistry::states(const Owner& owner, std::string_view id) const {
  std::lock_guard lock(mutex_);
  const ModelAndStates* entry = entry_of(id);
  std::vector<TunedState> states = entry ? entry->states : std::vector<TunedState>();
  std::erase_if(states, [&](const TunedState& state) { return !owner.may_use(state.owner); });
  return states;
}

ServedModelPtr ModelRegistry::with_state(const Owner& owner, const ServedModelPtr& model,
                                         std::string_view name) const {
  std::lock_guard lock(mutex_);
  const ModelAndStates* entry = entry_of(model->id);
  if (!entry) return nullptr;
  for (const std::string& called : {std::string(name), served_id(name)}) {
    const TunedState* state =
        pick_state(owner, *entry, [&](const TunedState& one) { return one.name == called; });
    if (state) return started_from(entry->model, *state);
  }
  return nullptr;
}

std::vector<ServedModelPtr> ModelRegistry::all() const {
  std::lock_guard lock(mutex_);
  std::vector<ServedModelPtr> list;
  for (auto entry = models_.rbegin(); entry != models_.rend(); ++entry) list.push_back(entry->model);
  return list;
}

std::vector<ServedModelPtr> ModelRegistry::one_per_ladder() const {
  std::vector<ServedModelPtr> models;
  std::set<const SessionLadder*> known;
  for (ServedModelPtr& model : all()) {
    const SessionLadder* ladder = model->engine->session_ladder();
    if (ladder == nullptr || known.insert(ladder).second) models.push_back(std::move(model));
  }
  return models;
}

Result<int64_t> ModelRegistry::erase_session(const Owner& owner, const std::string& id,
                                             bool and_branches) const {
  int64_t gone = 0;
  for (const ServedModelPtr& model : one_per_ladder()) {
    FULMAR_ASSIGN(const int64_t of_model, model->engine->erase_session(owner, id, and_branches));
    gone += of_model;
  }
  return gone;
}

void ModelRegistry::each_engine(const std::function<void(Engine&)>& visit) const {
  std::lock_guard lock(mutex_);
  std::set<const Engine*> visited;
  for (auto entry = models_.rbegin(); entry != models_.rend(); ++entry) {
    if (visited.insert(entry->model->engine).second) visit(*entry->model->engine);
  }
  for (const ServedModelPtr& model : leaving()) visit(*model->engine);
}

EngineStats ModelRegistry::figures() const {
  std::lock_guard lock(mutex_);
  EngineStats sum = retired_;
  std::set<const Engine*> counted;
  for (auto entry = models_.rbegin(); entry != models_.rend(); ++entry) {
    if (counted.insert(entry->model->engine).second) sum = add_up(sum, entry->model->engine->stats());
  }
  for (const ServedModelPtr& model : leaving()) sum = add_up(sum, leaving_figures(model->engine->stats()));
  return sum;
}

StoreHealth ModelRegistry::store_health() const {
  StoreHealth sum;
  for (const ServedModelPtr& model : one_per_ladder()) {
    const SessionLadder* ladder = model->engine->session_ladder();
    if (ladder == nullptr) continue;
    StoreHealth one = ladder->store_health();
    sum.waiting_bytes += one.waiting_bytes;
    if (sum.trouble.empty()) sum.trouble = std::move(one.trouble);
  }
  return sum;
}

bool ModelRegistry::empty() const {
  std::lock_guard lock(mutex_);
  return models_.empty();
}

bool ModelRegistry::take_out(std::string_view id) {
  const auto entry = std::find_if(models_.begin(), models_.end(),
                                  [&](const ModelAndStates& one) { return one.model->id == id; });
  if (entry == models_.end()) return false;
  leaving_.push_back(entry->model);
  models_.erase(entry);
  return true;
}

bool ModelRegistry::is_loaded(const Engine* engine) const {
  return std::any_of(models_.begin(), models_.end(),
                     [&](const ModelAndStates& entry) { return entry.model->engine == engine; });
}

// Returns the leaving models whose engines no loaded model uses.
std::vector<ServedModelPtr> ModelRegistry::leaving() const {
  std::vector<ServedModelPtr> models;
  for (const auto& one : leaving_) {
    ServedModelPtr model = one.lock();
    if (model && !is_loaded(model->engine)) models.push_back(std::move(model));
  }
  return models;
}

const ModelRegistry::ModelAndStates* ModelRegistry::entry_of(std::string_view id) const {
  for (const ModelAndStates& entry : models_) {
    if (entry.model->id == id) return &entry;
  }
  return nullptr;
}

}  // namespace fulmar
