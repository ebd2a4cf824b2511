// The adapters of a server: registered by id and owner, one content once in host memory, copied to a model's
// devices when a request wants them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adapters/parcel.h"
#include "engine/ask.h"
#include "server/adapters/adapter_shelf.h"
#include "server/adapters/adapter_table.h"
#include "server/core/options.h"
#include "server/models/served_model.h"

namespace fulmar {

// The most versions of adapters that one owner registers, over all ids.
inline constexpr size_t kMostAdaptersOfOwner = 1024;

// An adapter to register.
struct NewAdapter {
  std::string id;     // is_adapter_name()
  std::string owner;  // empty: everybody may use it
  std::string root;   // path or file name, as lists tell it
  std::string base;   // id of the model that it is for; empty: the first that it fits, the default one first
  AdapterParcel parcel;
  double global_scale = 0;  // t for requests that name no adapter
  bool only_base = false;   // of these, only requests to `base`
};

// Thread-safe.
class AdapterRegistry {
 public:
  // Makes an empty one; the models must outlive it.
  AdapterRegistry(ModelRegistry& models, AdapterLimits limits)
      : models_(models), limits_(std::move(limits)) {}

  const AdapterLimits& limits() const { return limits_; }

  // Decides which adapter a request gets (choose_adapter). Cheap: nothing is loaded.
  AdapterChosen choose(const Owner& owner, const ServedModelPtr& model, const AdapterWish& wish) const;
  // Makes the adapter ready on the model's devices and returns what the request's rows are computed with;
  // none for the base. Blocks for the copy: never call it on an IO thread or an engine's. Errors: 400 where
  // it cannot be used on this model, 503 with Retry-After while adapters in use leave no room.
  std::variant<AdapterUse, ApiError> lease(const AdapterChoice& choice, const ServedModelPtr& model) const;
  // Finds the base model of an adapter that is named as a model; null where there is none of that name.
  ServedModelPtr model_of(const Owner& owner, std::string_view name) const;

  // Registers an adapter as the default version of its id, and returns its version. Blocks where the base
  // model's file has to be hashed. Errors: 400 where it fits no loaded model, was trained on another or has
  // no live form, 507 beyond the host's budget and kMostAdaptersOfOwner; nothing has changed then.
  std::variant<std::string, ApiError> add(NewAdapter adapter);
  // Forgets a version of the owner's id, or all for an empty one. Requests under way keep it. False where
  // there was none.
  bool remove(const Owner& owner, std::string_view id, std::string_view version);
  // Forgets what was registered for all requests to the model of that id alone (NewAdapter::only_base).
  void forget_default_of(std::string_view base);
  // Sets the scale of each listed adapter for requests that name none; those not listed get 0.
  std::optional<ApiError> set_global_scales(const Owner& owner, const std::vector<ListedAdapter>& scales);

  // Lists the adapters that the owner may use, by number.
  std::vector<AdapterEntry> list(const Owner& owner) const;
  AdapterFigures figures() const;

 private:
  AdapterContentPtr content_of(const std::string& version) const;  // null: not registered
  uint64_t host_bytes() const;

  mutable std::mutex mutex_;
  ModelRegistry& models_;
  const AdapterLimits limits_;
  std::vector<AdapterEntry> table_;
  int64_t next_number_ = 0;
  int64_t host_hits_ = 0;
};

}  // namespace fulmar
