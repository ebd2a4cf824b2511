#include "server/adapters/adapter_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "adapters/live_form.h"
#include "base/log.h"
#include "base/unix_time.h"

namespace fulmar {
namespace {

AdaptedModel adapted(const ServedModel& model) {
  return {model.id, model.adapters ? model.adapters->shapes_text() : std::string()};
}

// Fits an adapter to a model, and compares the model that it was trained on with this one.
Status fit_to(const ServedModel& model, Adapter& adapter, bool any_base) {
  if (!model.adapters) {
    return Error{ErrorKind::unsupported, fmt::format("the model '{}' takes no adapters", model.id)};
  }
  FULMAR_TRY(fit_adapter(adapter, model.adapters->base().shapes));
  if (adapter.base_fingerprint.empty() || any_base) return {};
  FULMAR_ASSIGN(const std::string sha256, model.adapters->base().sha256());
  return check_fingerprint(adapter, sha256);
}

// Finds a model that the adapter fits: the named one, or else the first of all. The error is that of the
// first.
std::variant<ServedModelPtr, ApiError> fitting_model(const ModelRegistry& models, NewAdapter& adapter,
                                                     bool any_base) {
  std::optional<ApiError> first;
  for (const ServedModelPtr& model : models.all()) {
    if (!adapter.base.empty() && model->id != adapter.base) continue;
    const Status fits = fit_to(*model, adapter.parcel.adapter, any_base);
    if (fits.ok()) return model;
    if (!first) first = api_error(fits.error());
  }
  if (first) return *first;
  if (adapter.base.empty()) return ApiError{503, "No model loaded", {}, "model_not_loaded", {}};
  return bad_value(fmt::format("no model '{}' is loaded", adapter.base), "base_model_name");
}

size_t versions_of(const std::vector<AdapterEntry>& table, std::string_view owner) {
  size_t count = 0;
  for (const AdapterEntry& entry : table) count += entry.owner == owner ? entry.versions.size() : 0;
  return count;
}

bool holds(const AdapterEntry& entry, std::string_view version) {
  return std::any_of(entry.versions.begin(), entry.versions.end(),
                     [&](const AdapterContentPtr& one) { return one->version == version; });
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

AdapterContentPtr AdapterRegistry::content_of(const std::string& version) const {
  for (const AdapterEntry& entry : table_) {
    for (const AdapterContentPtr& one : entry.versions) {
      if (one->version == version) return one;
    }
  }
  return nullptr;
}

uint64_t AdapterRegistry::host_bytes() const {
  std::set<AdapterContentPtr> contents;
  for (const AdapterEntry& entry : table_) contents.insert(entry.versions.begin(), entry.versions.end());
  uint64_t sum = 0;
  for (const AdapterContentPtr& one : contents) sum += one->adapter.bytes();
  return sum;
}

std::variant<std::string, ApiError> AdapterRegistry::add(NewAdapter adapter) {
  if (const Status live = check_live(adapter.parcel.adapter); !live.ok()) return api_error(live.error());
  const auto base = fitting_model(models_, adapter, limits_.any_base);
  if (const auto* fault = std::get_if<ApiError>(&base)) return *fault;
  const ServedModelPtr& model = std::get<ServedModelPtr>(base);
  const std::string version = adapter.parcel.adapter.content_version;
  std::lock_guard lock(mutex_);
  AdapterContentPtr content = content_of(version);
  const bool known = content && content->shapes == model->adapters->shapes_text();
  if (!known && host_bytes() + adapter.parcel.adapter.bytes() > limits_.host_bytes) {
    return ApiError{507, "adapter RAM budget exceeded", {}, "insufficient_storage", {}};
  }
  if (versions_of(table_, adapter.owner) >= kMostAdaptersOfOwner) {
    return ApiError{
        507,
        fmt::format("{} versions of adapters are registered already; delete some", kMostAdaptersOfOwner),
        {},
        "insufficient_storage",
        {}};
  }
  host_hits_ += known ? 1 : 0;
  if (!known) {
    content = std::make_shared<const AdapterContent>(
        AdapterContent{.version = version,
                       .adapter = std::move(adapter.parcel.adapter),
                       .shapes = model->adapters->shapes_text(),
                       .manifest = std::move(adapter.parcel.manifest)});
  }
  auto entry = std::find_if(table_.begin(), table_.end(), [&](const AdapterEntry& other) {
    return other.id == adapter.id && other.owner == adapter.owner;
  });
  if (entry == table_.end()) {
    AdapterEntry made;
    made.id = adapter.id;
    made.owner = adapter.owner;
    made.number = next_number_++;
    made.created = unix_seconds();
    entry = table_.insert(table_.end(), std::move(made));
  }
  entry->base = model->id;
  entry->root = adapter.root;
  entry->global_scale = adapter.global_scale;
  entry->only_base = adapter.only_base;
  std::erase_if(entry->versions, [&](const AdapterContentPtr& one) { return one->version == version; });
  entry->versions.push_back(content);
  spdlog::info("adapter registered id='{}' version={:.8} base='{}' bytes={}", entry->id, version, entry->base,
               content->adapter.bytes());
  return version;
}

bool AdapterRegistry::remove(const Owner& owner, std::string_view id, std::string_view version) {
  std::vector<std::string> gone;
  bool found = false;
  {
    std::lock_guard lock(mutex_);
    const AdapterEntry* meant = find_adapter(table_, owner, id);
    if (!meant || !owner.sees(meant->owner)) return false;
    const auto entry = table_.begin() + (meant - table_.data());
    for (size_t i = entry->versions.size(); i-- > 0;) {
      const std::string one = entry->versions[i]->version;
      if (!version.empty() && one != version) continue;
      entry->versions.erase(entry->versions.begin() + static_cast<int64_t>(i));
      gone.push_back(one);
    }
    found = !gone.empty();
    if (entry->versions.empty()) table_.erase(entry);
    std::erase_if(gone, [&](const std::string& one) {
      return std::any_of(table_.begin(), table_.end(), [&](const auto& other) { return holds(other, one); });
    });
  }
  for (const ServedModelPtr& model : models_.all()) {
    for (const std::string& one : gone) {
      if (model->adapters) model->adapters->forget(one);
    }
  }
  if (found) spdlog::info("adapter removed id='{}'", id);
  return found;
}

void AdapterRegistry::forget_default_of(std::string_view base) {
  std::lock_guard lock(mutex_);
  std::erase_if(table_, [&](const AdapterEntry& entry) { return entry.only_base && entry.base == base; });
}

std::optional<ApiError> AdapterRegistry::set_global_scales(const Owner& owner,
                                                           const std::vector<ListedAdapter>& scales) {
  std::lock_guard lock(mutex_);
  const auto set = scaled_globally(table_, owner, scales);
  if (const auto* fault = std::get_if<ApiError>(&set)) return *fault;
  const auto& wanted = std::get<std::vector<double>>(set);
  for (size_t i = 0; i < table_.size(); i++) {
    table_[i].global_scale = wanted[i];
    table_[i].only_base = false;
  }
  return std::nullopt;
}

std::vector<AdapterEntry> AdapterRegistry::list(const Owner& owner) const {
  std::lock_guard lock(mutex_);
  std::vector<AdapterEntry> seen;
  for (const AdapterEntry& entry : table_) {
    if (owner.may_use(entry.owner)) seen.push_back(entry);
  }
  return seen;
}

AdapterFigures AdapterRegistry::figures() const {
  AdapterFigures sum;
  for (const ServedModelPtr& model : models_.all()) {
    if (model->adapters) sum.add(model->adapters->figures());
  }
  std::lock_guard lock(mutex_);
  std::set<AdapterContentPtr> contents;
  for (const AdapterEntry& entry : table_) contents.insert(entry.versions.begin(), entry.versions.end());
  sum.registered = static_cast<int64_t>(contents.size());
  sum.host_bytes = host_bytes();
  sum.host_hits = host_hits_;
  return sum;
}

}  // namespace fulmar
