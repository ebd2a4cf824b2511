#include "server/adapters/registering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "adapters/adapter_flag.h"
#include "base/log.h"
#include "files/files_root.h"
#include "net/json_value.h"

namespace fulmar {
namespace {

using Added = std::variant<std::string, ApiError>;

// Returns a fault for an adapter that cannot be read: 400 as rwkv_lightning has it, but for lack of memory.
ApiError unreadable(const Error& error) {
  ApiError fault = api_error(error);
  if (error.kind == ErrorKind::resource) {
    fault = {507, "adapter RAM budget exceeded: " + error.text, {}, "insufficient_storage", {}};
  }
  if (error.kind == ErrorKind::not_found) fault.status = 400;
  return fault;
}

// Checks what is said beside the files, and bounds what they may hold.
std::optional<ApiError> check_options(const AdapterRegistry& registry, AdapterOptions& options) {
  for (const auto& [name, value] : {std::pair("alpha", options.alpha), {"scale", options.scale}}) {
    if (value && !(std::abs(*value) <= kMostAdapterFactor)) {
      return bad_value(fmt::format("{} is {}; wanted a number from {} to {}", name, *value,
                                   -kMostAdapterFactor, kMostAdapterFactor),
                       name);
    }
  }
  options.most_bytes = std::min(options.most_bytes, registry.limits().host_bytes);
  return std::nullopt;
}

// Checks likewise, and the id.
std::optional<ApiError> check_new(const AdapterRegistry& registry, const NewAdapter& adapter,
                                  AdapterOptions& options) {
  if (!is_adapter_name(adapter.id)) {
    return bad_value(fmt::format("adapter_id is {}; wanted 1 to 128 letters, digits, '.', '_' and '-'",
                                 describe(JsonValue(adapter.id.substr(0, 200)))),
                     "adapter_id");
  }
  return check_options(registry, options);
}

Added add_parcel(AdapterRegistry& registry, NewAdapter adapter, Result<AdapterParcel> parcel) {
  if (!parcel.ok()) {
    spdlog::warn("adapter not registered id='{}' reason=\"{}\"", adapter.id, parcel.error().text);
    return unreadable(parcel.error());
  }
  adapter.parcel = std::move(*parcel);
  return registry.add(std::move(adapter));
}

}  // namespace

Added register_files(AdapterRegistry& registry, NewAdapter adapter, AdapterOptions options,
                     std::span<const NamedBytes> files) {
  if (const auto fault = check_new(registry, adapter, options)) return *fault;
  return add_parcel(registry, std::move(adapter), read_parcel(files, options));
}

Added register_path(AdapterRegistry& registry, NewAdapter adapter, AdapterOptions options,
                    const std::filesystem::path& path) {
  if (const auto fault = check_new(registry, adapter, options)) return *fault;
  return add_parcel(registry, std::move(adapter), read_parcel(path, options));
}

std::variant<AdapterParcel, ApiError> read_below_root(const AdapterRegistry& registry,
                                                      const std::string& path, AdapterOptions options) {
  const std::string& root = registry.limits().root;
  if (root.empty()) {
    return bad_value(
        fmt::format("'{}': clients name no files here, as --adapter-root is not set; send the file", path),
        "path");
  }
  if (const auto fault = check_options(registry, options)) return *fault;
  const auto found = path_below({root, "--adapter-root", "the folder for adapters"}, path, true);
  if (!found.ok()) return api_error(found.error());
  auto parcel = read_parcel(*found, options);
  if (!parcel.ok()) return unreadable(parcel.error());
  return std::move(*parcel);
}

Added register_below_root(AdapterRegistry& registry, NewAdapter adapter, AdapterOptions options) {
  if (const auto fault = check_new(registry, adapter, options)) return *fault;
  auto parcel = read_below_root(registry, adapter.root, options);
  if (const auto* fault = std::get_if<ApiError>(&parcel)) return *fault;
  adapter.parcel = std::get<AdapterParcel>(std::move(parcel));
  return registry.add(std::move(adapter));
}

}  // namespace fulmar
