// The adapters of a server: registered by id and owner, one content once in host memory, copied to a model's
// devices when a request wants them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "adapters/reading.h"
#include "engine/ask.h"
#include "server/adapters/adapter_shelf.h"
#include "server/adapters/adapter_table.h"
#include "server/core/options.h"
#include "server/models/served_model.h"

namespace fulmar {

// An adapter to register.
struct NewAdapter {
  std::string id;
  std::string owner;  // empty: everybody may use it
  std::string root;   // path or file name, as lists tell it
  std::string base;   // id of the model that it is for; empty: the first that it fits, the default one first
  Adapter content;
};

// Thread-safe.
class AdapterRegistry {
 public:
  // The models must outlive it.
  AdapterRegistry(ModelRegistry& models, const AdapterLimits& limits) : models_(models), limits_(limits) {}

  // Decides which adapter a request gets (choose_adapter). Cheap: nothing is loaded.
  AdapterChosen choose(const Owner& owner, const ServedModelPtr& model, const AdapterWish& wish) const;
  // Makes the adapter ready on the model's devices and returns what the request's rows are computed with;
  // none for the base. Blocks for the copy: never call it on an IO thread or an engine's. Errors: 400 where
  // it cannot be used on this model, 503 with Retry-After while adapters in use leave no room.
  std::variant<AdapterUse, ApiError> lease(const AdapterChoice& choice, const ServedModelPtr& model) const;
  // Finds the base model of an adapter that is named as a model; null where there is none of that name.
  ServedModelPtr model_of(const Owner& owner, std::string_view name) const;

  // Registers an adapter as the default version of its id. Returns its version. Errors: 400 where it fits no
  // loaded model or has no live form, 507 beyond the host's budget; nothing has changed then.
  std::variant<std::string, ApiError> add(NewAdapter adapter);

 private:
  mutable std::mutex mutex_;
  ModelRegistry& models_;
  const AdapterLimits limits_;
  std::vector<AdapterEntry> table_;
  int64_t next_number_ = 0;
};

}  // namespace fulmar
