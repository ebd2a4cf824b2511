#include "server/adapters/adapter_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "adapters/live_form.h"
#include "base/log.h"
#include "base/unix_time.h"

namespace fulmar {
namespace {

AdaptedModel adapted(const ServedModel& model) {
  return {model.id, model.adapters ? model.adapters->shapes_text() : std::string()};
}

// Finds a model that the adapter fits: the named one, or else the first of all loaded ones. The error is that
// of the first.
std::variant<ServedModelPtr, ApiError> fitting_model(const ModelRegistry& models, NewAdapter& adapter) {
  std::optional<ApiError> first;
  for (const ServedModelPtr& model : models.all()) {
    if (!adapter.base.empty() && model->id != adapter.base) continue;
    Status fits = Error{ErrorKind::unsupported, fmt::format("the model '{}' takes no adapters", model->id)};
    if (model->adapters) fits = fit_adapter(adapter.content, model->adapters->base().shapes);
    if (fits.ok()) return model;
    if (!first) first = api_error(fits.error());
  }
  if (first) return *first;
  if (adapter.base.empty()) return ApiError{503, "No model loaded", {}, "model_not_loaded", {}};
  return bad_value(fmt::format("no model '{}' is loaded", adapter.base), "base_model_name");
}

}  // namespace

AdapterChosen AdapterRegistry::choose(const Owner& owner, const ServedModelPtr& model,
                                      const AdapterWish& wish) const {
  std::lock_guard lock(mutex_);
  return choose_adapter(table_, owner, adapted(*model), wish);
}

std::variant<AdapterUse, ApiError> AdapterRegistry::lease(const AdapterChoice& choice,
                                                          const ServedModelPtr& model) const {
  if (!choice.held) return AdapterUse();
  auto leased = model->adapters->lease(choice.held, limits_.device_bytes, limits_.any_base);
  if (const auto* fault = std::get_if<ApiError>(&leased)) return *fault;
  return AdapterUse{std::get<0>(leased), static_cast<float>(choice.scale), choice.identity};
}

ServedModelPtr AdapterRegistry::model_of(const Owner& owner, std::string_view name) const {
  std::string base;
  {
    std::lock_guard lock(mutex_);
    const AdapterEntry* entry = find_adapter(table_, owner, name);
    if (!entry) return nullptr;
    base = entry->base;
  }
  return models_.find(owner, base, true);
}

std::variant<std::string, ApiError> AdapterRegistry::add(NewAdapter adapter) {
  const auto base = fitting_model(models_, adapter);
  if (const auto* fault = std::get_if<ApiError>(&base)) return *fault;
  const ServedModelPtr& model = std::get<ServedModelPtr>(base);
  auto content = std::make_shared<AdapterContent>();
  content->version = adapter.content.content_version;
  content->shapes = model->adapters->shapes_text();
  content->adapter = std::move(adapter.content);
  std::lock_guard lock(mutex_);
  auto entry = std::find_if(table_.begin(), table_.end(), [&](const AdapterEntry& other) {
    return other.id == adapter.id && other.owner == adapter.owner;
  });
  if (entry == table_.end()) {
    table_.push_back({.id = adapter.id, .owner = adapter.owner, .number = next_number_++});
    entry = std::prev(table_.end());
    entry->created = unix_seconds();
  }
  entry->base = model->id;
  entry->root = adapter.root;
  std::erase_if(entry->versions,
                [&](const AdapterContentPtr& one) { return one->version == content->version; });
  entry->versions.push_back(content);
  return content->version;
}

}  // namespace fulmar
