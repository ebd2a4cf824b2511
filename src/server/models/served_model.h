// Facts about a loaded model, and the registry that finds one by any of its names (docs/http.md, "Model
// names").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "cache/session_name.h"
#include "engine/engine.h"
#include "text/stop_defaults.h"
#include "text/tokenizer.h"

namespace fulmar {

class AdapterShelf;
struct AdapterChoice;

// Memory of a device that a model runs on.
struct DeviceMemory {
  std::string device;  // "cuda:0"
  int64_t total = 0;   // bytes
  int64_t free = 0;
  int64_t layers = 0;  // of models, on this device
};

struct ServedModel {
  std::string id;         // as clients see it: served_id(path) unless told otherwise
  std::string view_name;  // a second public name; empty: none
  std::string path;
  int64_t created = 0;       // unix seconds: the file's time
  std::string architecture;  // "rwkv7"
  std::string runtime;       // how the weights are kept: "f16", "bf16", ...
  int64_t vocabulary = 0;    // ids the model can draw: 0 .. vocabulary-1
  int64_t state_bytes = 0;   // of one sequence
  int64_t parameters = 0;
  int64_t weight_bytes = 0;

  // Lists each device once; empty when no device has memory of its own. From any thread.
  std::function<std::vector<DeviceMemory>()> device_memory;

  // Both outlive every request on the model.
  Engine* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  // The adapters on its devices (server/adapters/adapter_shelf.h); null: it takes none.
  std::shared_ptr<AdapterShelf> adapters;

  std::string end_text;              // a further text that ends turns of chats; empty: none
  std::optional<int32_t> end_token;  // ends every row unless ignore_eos; nothing: id 0 is data
  const PromptTemplate* prompt_template = &world_template();
  StopDefaults stops;   // of this vocabulary and template
  bool thinks = false;  // chats end in a think suffix by default
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
  // Name in the engine of the tuned state that rows start from unless they continue a session.
  std::string initial_state;
  std::vector<MixtureMember> mixture;  // when that state is a mixture: what it consists of
  // The adapter that rows are computed with (server/adapters/adapter_table.h); null: none was named.
  std::shared_ptr<const AdapterChoice> adapter;
  std::weak_ptr<const ServedModel> plain;  // with an initial state or an adapter: the model without
};

// A tuned state of a model. Its numbers are in the model's engine, under engine_name().
struct TunedState {
  std::string name;
  std::string owner = {};                     // who may use it; empty: everybody
  std::optional<double> default_temperature;  // each before the model's own
  std::optional<double> default_top_p;
  std::vector<MixtureMember> mixture;  // not empty: several states of the engine under this one name

  // Returns the state's name in the engine. It contains the owner, because two owners may use the same name.
  std::string engine_name() const { return session_text(owner, name); }
};

using ServedModelPtr = std::shared_ptr<const ServedModel>;

// Returns the file name without directory and without .pth, .safetensors, .st or .gguf.
std::string served_id(std::string_view path);

// Returns `members` with these weights; members without a weight get 0. Fails for more weights than members
// and for a sum of 0.
Result<std::vector<MixtureMember>> weighted(std::vector<MixtureMember> members,
                                            const std::vector<double>& weights);
// Returns the same model with another mixture; the result keeps `model` alive.
ServedModelPtr with_mixture(const ServedModelPtr& model, std::vector<MixtureMember> mixture);
// Returns the same model with an adapter, whose fresh rows start from the engine's state of that name (empty:
// as before); the result keeps `model` alive.
ServedModelPtr with_adapter(const ServedModelPtr& model, std::shared_ptr<const AdapterChoice> adapter,
                            const std::string& initial_state);

// Thread-safe. The default model is the one added last. A model that was replaced or removed is leaving until
// its last request has gone: nobody finds it any more, but its figures count.
class ModelRegistry {
 public:
  // Adds a model with its tuned states, of which each pair of name and owner is unique. Replaces a model of
  // the same id and forgets that one's states.
  void add(ServedModelPtr model, std::vector<TunedState> states = {});
  // Adds a model likewise, but keeps the default model.
  void add_behind(ServedModelPtr model, std::vector<TunedState> states = {});
  // Removes a model; false when there is none of that id.
  bool remove(std::string_view id);
  // Forgets a model that is leaving, and keeps its counters: call it when the last request has gone, before
  // the engine ends.
  void retire(const ServedModel& model);

  // Finds a model by id, view name or file name, with or without the tag ":latest". A space and the name of a
  // tuned state may follow: the model then comes with that initial_state and its defaults, and the owner's
  // own state is preferred to a public one. Otherwise returns the default model when `name` is a general one
  // ("", "default", "rwkv", "rwkv7", "rwkv-7") or `strict` is false, else null.
  ServedModelPtr find(const Owner& owner, std::string_view name, bool strict) const;
  ServedModelPtr default_model() const { return find({}, {}, false); }

  // Replaces the model's state of the same name and owner. False when there is no model of that id.
  bool add_state(std::string_view id, TunedState state);
  // Lets `change` alter the owner's own state of that name, bare or after its model's, and says whether there
  // is one.
  bool change_state(const Owner& owner, std::string_view name,
                    const std::function<void(TunedState&)>& change);
  void remove_state(std::string_view owner, std::string_view name);
  void clear_states();
  // Lists the model's states that the owner may use.
  std::vector<TunedState> states(const Owner& owner, std::string_view id) const;
  // Returns the model with one of its states as find() does. `name`: the state's, or a file name that would
  // give it. Null when there is no such state.
  ServedModelPtr with_state(const Owner& owner, const ServedModelPtr& model, std::string_view name) const;
  // Lists the loaded models: the default first, then the others, latest first.
  std::vector<ServedModelPtr> all() const;
  // Lists them as all() does, but only one of those whose engines share their sessions.
  std::vector<ServedModelPtr> one_per_ladder() const;
  // Erases sessions of all models, as Engine::erase_session() does.
  Result<int64_t> erase_session(const Owner& owner, const std::string& id, bool and_branches) const;
  bool empty() const;

  // Visits each engine once, first those of loaded models, then those of leaving ones. No engine ends
  // meanwhile, because the lock is held: `visit` must not call the registry or wait for an engine's thread.
  void each_engine(const std::function<void(Engine&)>& visit) const;
  // Sums up the figures of all engines. Counters never fall: those of retired models remain in the sum.
  EngineStats figures() const;
  // Sums up the health of all session stores; `trouble` is the first one that is not empty.
  StoreHealth store_health() const;

 private:
  struct ModelAndStates {
    ServedModelPtr model;
    std::vector<TunedState> states;
  };
  const ModelAndStates* entry_of(std::string_view id) const;
  // Visits the states that the owner may use, one's own first, until `fits` takes one.
  static const TunedState* pick_state(const Owner& owner, const ModelAndStates& entry,
                                      FunctionRef<bool(const TunedState&)> fits);
  bool take_out(std::string_view id);
  bool is_loaded(const Engine* engine) const;
  std::vector<ServedModelPtr> leaving() const;

  mutable std::mutex mutex_;
  std::vector<ModelAndStates> models_;  // in order of loading
  // Weak: whoever owns a leaving model sees by its use count when the last request has gone.
  std::vector<std::weak_ptr<const ServedModel>> leaving_;
  EngineStats retired_;  // counters
};

}  // namespace fulmar
