// The adapters that are registered, as plain data, and the decision which of them a request gets. Knows no
// devices and no routes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adapters/adapter.h"
#include "base/owner.h"
#include "server/core/errors.h"

namespace fulmar {

// One content in host memory, whatever ids it is registered under.
struct AdapterContent {
  std::string version;   // 64 hexadecimal digits
  Adapter adapter;       // fits the models of these shapes
  std::string shapes;    // AdapterShelf::shapes_text() of such a model
  std::string manifest;  // JSON: what GET /v1/adapters tells of it
  // Returns s, where all deltas share one; nothing where they do not or there are none.
  std::optional<double> common_scale() const;
};
using AdapterContentPtr = std::shared_ptr<const AdapterContent>;

// What an owner has registered under one id.
struct AdapterEntry {
  std::string id;
  std::string owner;                        // empty: everybody may use it
  int64_t number = 0;                       // its id in llama.cpp's routes; never given twice
  std::string base;                         // id of the model that it was compared with
  std::string root;                         // path or file name that it came from
  int64_t created = 0;                      // unix seconds
  std::vector<AdapterContentPtr> versions;  // in order of registration; the last is the default
  double global_scale = 0;                  // t for requests that name no adapter
  bool only_base = false;                   // of these, only requests to the model `base`
};

// One of llama.cpp's `lora`: [{id, scale}].
struct ListedAdapter {
  int64_t number = 0;
  double scale = 0;
};

// What a request says of adapters.
struct AdapterWish {
  std::string id;                                  // adapter_id; empty: not said
  std::string version;                             // adapter_version; empty: not said
  std::optional<double> scale;                     // adapter_scale: takes the place of s; 0: the base
  std::optional<std::vector<ListedAdapter>> list;  // lora; each scale multiplies s
  std::optional<double> strength;                  // t of `id`, where it was decided before
  std::string by_model_name;                       // the adapter that the field `model` named; empty: none
};

// The adapter of a request, of which nothing is loaded yet.
struct AdapterChoice {
  std::string id, version;    // as told in usage and the log, also at scale 0; empty: none
  double scale = 1;           // t
  std::string identity;       // AdapterUse::identity; empty: the base model
  std::string initial_state;  // engine's name of the state that fresh rows start from; empty: the model's own
  AdapterContentPtr held;     // null: the base model
};
using AdapterChosen = std::variant<AdapterChoice, ApiError>;

// A model as far as the decision needs it.
struct AdaptedModel {
  std::string id;
  std::string shapes;  // empty: it takes no adapters
};

// The largest |t| that is accepted.
inline constexpr double kMostAdapterScale = 100;

// Returns the entry that an id means to an owner: its own before a public one, and those before others that
// an administrator sees; null where there is none.
const AdapterEntry* find_adapter(const std::vector<AdapterEntry>& table, const Owner& owner,
                                 std::string_view id);

// Decides which adapter a request gets: that of the list, else of adapter_id, else of the model's name, else
// what the global scales say. Errors are 400s in the words of rwkv_lightning where it has any.
AdapterChosen choose_adapter(const std::vector<AdapterEntry>& table, const Owner& owner,
                             const AdaptedModel& model, const AdapterWish& wish);

// Returns the global scale of each entry after llama.cpp's POST /lora-adapters: those not listed get 0.
// Errors (400): an unknown or doubled number, a scale out of bounds, and two adapters of one model with
// scales other than 0.
std::variant<std::vector<double>, ApiError> scaled_globally(const std::vector<AdapterEntry>& table,
                                                            const Owner& owner,
                                                            const std::vector<ListedAdapter>& scales);

// Returns the path that an adapter came from; to callers that have shown no key the file's name alone.
std::string shown_root(const AdapterEntry& entry, bool trusted);

// Returns the engine's name of the initial states of that version. No client can say it.
std::string adapter_state_name(std::string_view version);

}  // namespace fulmar
