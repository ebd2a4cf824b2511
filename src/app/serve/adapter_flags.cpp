#include "app/serve/adapter_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "app/core/option_checks.h"
#include "net/json.h"
#include "server/adapters/registering.h"

namespace fulmar {
namespace {

constexpr int64_t kMostMib = int64_t{1} << 24;

CLI::Option* each(CLI::Option* option) {
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Reads vLLM's {"name": ..., "path": ..., "base_model_name": ...}.
Result<StartAdapter> read_module(const std::string& text) {
  StartAdapter adapter;
  if (!text.starts_with('{')) {
    FULMAR_ASSIGN(static_cast<AdapterFlag&>(adapter), read_named_adapter_flag(text));
    return adapter;
  }
  FULMAR_ASSIGN(const JsonValue json, parse_json(text));
  std::string path;
  for (const auto& [name, value] : json.as_object().members()) {
    std::string* const place = name == "name"              ? &adapter.name
                               : name == "path"            ? &path
                               : name == "base_model_name" ? &adapter.base
                                                           : nullptr;
    if (!place || !value.is_string()) {
      return Error{ErrorKind::invalid,
                   fmt::format("--lora-modules: '{}' is {}; wanted texts name, path and base_model_name",
                               name, describe(value))};
    }
    *place = value.as_string();
  }
  adapter.path = path;
  if (is_adapter_name(adapter.name) && !path.empty()) return adapter;
  return Error{ErrorKind::invalid,
               fmt::format("--lora-modules: '{}' has no name and path of an adapter", text)};
}

// Reads llama.cpp's FILE, which has no name but that of the file.
Result<StartAdapter> read_unnamed(const std::string& text, double global_scale) {
  StartAdapter adapter;
  FULMAR_ASSIGN(static_cast<AdapterFlag&>(adapter), read_adapter_flag(text));
  adapter.global_scale = global_scale;
  adapter.name = adapter.path.stem().string();
  if (is_adapter_name(adapter.name)) return adapter;
  return Error{
      ErrorKind::invalid,
      fmt::format("'{}' has no name that an adapter may have; wanted --adapter NAME={}", text, text)};
}

Result<double> read_scale(const std::string& text) {
  double scale = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, scale);
  if (parsed.ec == std::errc() && parsed.ptr == end && std::abs(scale) <= kMostAdapterScale) return scale;
  return Error{ErrorKind::invalid,
               fmt::format("--lora-scaled: the scale is '{}'; wanted a number from {} to {}", text,
                           -kMostAdapterScale, kMostAdapterScale)};
}

}  // namespace

void add_adapter_flags(CLI::App& app, ServeAdapterFlags& flags) {
  app.option_defaults()->group("Adapters");
  each(app.add_option("--adapter", flags.adapters,
                      "NAME=PATH[,alpha=A][,scale=S]: an adapter that requests may name; repeatable"))
      ->allow_extra_args(false);
  app.add_option("--adapter-root", flags.limits.root, "adapters that clients name must lie in this folder")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--adapter-admin", flags.limits.load_by_name,
               "vLLM's routes load adapters from there though other hosts reach the server");
  app.add_flag("--adapter-any-base", flags.limits.any_base,
               "take adapters that name another base model than this one");
  app.add_option("--adapter-host", flags.host_mib, "MiB of host memory for all adapters")
      ->check(whole(1, kMostMib))
      ->capture_default_str();
  app.add_option("--adapter-device", flags.device_mib,
                 "MiB of a model's devices for the adapters in use there")
      ->check(whole(1, kMostMib))
      ->capture_default_str();
  app.option_defaults()->group("");  // as vLLM and llama.cpp spell them
  each(app.add_option("--lora-modules", flags.modules, "NAME=PATH, or JSON of name and path; several"));
  each(app.add_option("--lora", flags.loras, "adapter that applies unless a request says otherwise"))
      ->allow_extra_args(false);
  each(app.add_option("--lora-scaled", flags.scaled, "likewise, with its scale behind it"))
      ->allow_extra_args(false)
      ->type_size(2);
  app.add_flag("--lora-init-without-apply", flags.not_applied, "such adapters apply where requests say so");
}

Result<std::vector<StartAdapter>> start_adapters(const ServeAdapterFlags& flags) {
  std::vector<StartAdapter> all;
  const auto take = [&](Result<StartAdapter> adapter) -> Status {
    if (!adapter.ok()) return adapter.error();
    const bool twice = std::any_of(all.begin(), all.end(),
                                   [&](const StartAdapter& other) { return other.name == adapter->name; });
    if (twice) {
      return Error{ErrorKind::invalid, fmt::format("two adapters have the name '{}'", adapter->name)};
    }
    all.push_back(*std::move(adapter));
    return {};
  };
  for (const std::string& text : flags.loras) {
    FULMAR_TRY(take(read_unnamed(text, flags.not_applied ? 0 : 1)));
  }
  for (size_t i = 0; i + 1 < flags.scaled.size(); i += 2) {
    FULMAR_ASSIGN(const double scale, read_scale(flags.scaled[i + 1]));
    FULMAR_TRY(take(read_unnamed(flags.scaled[i], flags.not_applied ? 0 : scale)));
  }
  for (const auto* list : {&flags.adapters, &flags.modules}) {
    for (const std::string& text : *list) FULMAR_TRY(take(read_module(text)));
  }
  const auto applies = [](const StartAdapter& one) { return one.global_scale != 0; };
  if (std::count_if(all.begin(), all.end(), applies) > 1) {
    return Error{ErrorKind::invalid,
                 "--lora and --lora-scaled name several adapters; one can apply to all requests, others need "
                 "--adapter or --lora-init-without-apply"};
  }
  return all;
}

AdapterLimits adapter_limits(const ServeAdapterFlags& flags) {
  AdapterLimits limits = flags.limits;
  limits.host_bytes = static_cast<uint64_t>(flags.host_mib) << 20;
  limits.device_bytes = static_cast<uint64_t>(flags.device_mib) << 20;
  return limits;
}

Status register_at_start(AdapterRegistry& registry, const std::vector<StartAdapter>& adapters) {
  for (const StartAdapter& one : adapters) {
    NewAdapter adapter;
    adapter.id = one.name;
    adapter.root = one.path.string();
    adapter.base = one.base;
    adapter.global_scale = one.global_scale;
    const auto added = register_path(registry, std::move(adapter), one.options, one.path);
    if (const auto* fault = std::get_if<ApiError>(&added)) {
      return Error{ErrorKind::invalid, fmt::format("adapter '{}': {}", one.name, fault->text)};
    }
  }
  return {};
}

}  // namespace fulmar
