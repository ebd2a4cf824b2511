// What the server knows of a loaded model, and finding one by any of its names (docs/http.md, "Model names").
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

// Of a device that a model runs on.
struct DeviceMemory {
  std::string device;  // "cuda:0"
  int64_t total = 0;   // bytes
  int64_t free = 0;
  int64_t layers = 0;  // of models, that it holds
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

  // Each device once. From any thread; empty where no device has a memory of its own.
  std::function<std::vector<DeviceMemory>()> device_memory;

  // Both outlive every request on the model.
  Engine* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;

  std::string end_text;              // ends the turns of chats besides the usual texts; empty: nothing more
  std::optional<int32_t> end_token;  // ends every row unless ignore_eos; nothing: id 0 is data
  const PromptTemplate* prompt_template = &world_template();
  StopDefaults stops;   // of this vocabulary and template
  bool thinks = false;  // chats end in a think suffix by default
  std::optional<double> default_temperature;
  std::optional<double> default_top_p;
  // Tuned state that rows start from where they continue no session, as the engine calls it.
  std::string initial_state;
  std::vector<MixtureMember> mixture;      // when that state is a mixture: what it consists of
  std::weak_ptr<const ServedModel> plain;  // with an initial state: the model without one
};

// A tuned state of a model. Its numbers are in the model's engine, under engine_name().
struct TunedState {
  std::string name;
  std::string owner = {};                     // who may use it; empty: everybody
  std::optional<double> default_temperature;  // each before the model's own
  std::optional<double> default_top_p;
  std::vector<MixtureMember> mixture;  // not empty: several states of the engine under this one name

  // Two owners may give their states the same name.
  std::string engine_name() const { return session_text(owner, name); }
};

using ServedModelPtr = std::shared_ptr<const ServedModel>;

// The file name without directory and without .pth, .safetensors, .st or .gguf.
std::string served_id(std::string_view path);

// `members` with these weights; further members get 0. Error: more weights than members, or a sum of 0.
Result<std::vector<MixtureMember>> weighted(std::vector<MixtureMember> members,
                                            const std::vector<double>& weights);
// The same model with another mixture. Holds on to `model`.
ServedModelPtr with_mixture(const ServedModelPtr& model, std::vector<MixtureMember> mixture);

// Thread-safe. The default model is the one added last. A model that was replaced or removed is leaving until
// its last request has gone: nobody finds it any more, but its figures count.
class ModelRegistry {
 public:
  // With its tuned states, each name and owner once. A model of the same id is replaced, and its states are
  // forgotten.
  void add(ServedModelPtr model, std::vector<TunedState> states = {});
  // Likewise, but the default stays.
  void add_behind(ServedModelPtr model, std::vector<TunedState> states = {});
  // False when there is none of that id.
  bool remove(std::string_view id);
  // Forgets a model that is leaving, and keeps its counters: call it when the last request has gone, before
  // the engine ends.
  void retire(const ServedModel& model);

  // By id, view name or file name, with or without the tag ":latest", each alone or followed by a space and a
  // tuned state that the owner may use, one's own before one of that name for all: the model then comes with
  // that initial_state and its defaults. Else the default when `name` is a general one ("", "default",
  // "rwkv", "rwkv7", "rwkv-7") or `strict` is false. Null when nothing fits.
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
  // Those that the owner may use.
  std::vector<TunedState> states(const Owner& owner, std::string_view id) const;
  // The model with the state of that name, or of the name that a file of it would give, as find() takes one;
  // null when it has none such.
  ServedModelPtr with_state(const Owner& owner, const ServedModelPtr& model, std::string_view name) const;
  // The default first, then the others, latest first.
  std::vector<ServedModelPtr> all() const;
  // As all(), one of those whose engines share their sessions.
  std::vector<ServedModelPtr> one_per_ladder() const;
  // Erases sessions of all models, as Engine::erase_session() does.
  Result<int64_t> erase_session(const Owner& owner, const std::string& id, bool and_branches) const;
  bool empty() const;

  // Each engine once, of loaded models first, then of leaving ones; none of them ends meanwhile. `visit`
  // calls neither the registry nor anything that waits for an engine's thread.
  void each_engine(const std::function<void(Engine&)>& visit) const;
  // Of all engines together. Counters never fall: those of retired models stay.
  EngineStats figures() const;
  // Of the stores of all models together; `trouble` is that of the first that has some.
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
