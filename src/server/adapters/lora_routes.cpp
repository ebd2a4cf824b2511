#include "server/adapters/lora_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "net/host_check.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/adapters/listed_adapters.h"
#include "server/adapters/registering.h"
#include "server/core/call.h"
#include "server/core/fields.h"

namespace fulmar {
namespace {

void answer_text(Call& call, std::string text) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(text);
  call.respond(std::move(response));
}

// Answers an error as vLLM writes those of its routes of adapters.
void fail_as_vllm(Call& call, int status, std::string_view type, std::string_view text) {
  JsonWriter json;
  json.begin_object().member("object", "error").member("message", text).member("type", type);
  json.key("param").null().member("code", status).end_object();
  call.respond_json(json.take(), status);
}

std::string name_of(Fields& fields, TypedField<Takes::Type::text> one) {
  return fields.text(one).value_or(std::string());
}

// Finds the owner's own adapter of that name; one that others registered is none of its business.
bool has_own(const AdapterRegistry& registry, const Owner& owner, std::string_view name) {
  const auto all = registry.list(owner);
  return std::any_of(all.begin(), all.end(), [&](const AdapterEntry& entry) {
    return entry.id == name && entry.owner == owner.name;
  });
}

}  // namespace

void load_lora_adapter(std::shared_ptr<Call> call) {
  AdapterRegistry& registry = *call->service().families.adapters;
  if (!registry.limits().load_by_name && !is_loopback_host(call->service().options.host)) {
    return call->fail({403, "Adapters are loaded by path only with --adapter-admin", {}, "forbidden", {}});
  }
  Fields fields(call->body());
  NewAdapter adapter;
  AdapterOptions options;
  adapter.id = name_of(fields, kLoadLoraFields["lora_name"]);
  adapter.root = name_of(fields, kLoadLoraFields["lora_path"]);
  adapter.base = name_of(fields, kLoadLoraFields["base_model_name"]);
  adapter.owner = call->owner().name;
  options.alpha = fields.number(kLoadLoraFields["alpha"]);
  options.scale = fields.number(kLoadLoraFields["scale"]);
  if (fields.failed()) return fail_as_vllm(*call, 400, "InvalidUserInput", fields.fault().text);
  if (adapter.id.empty() || adapter.root.empty()) {
    return fail_as_vllm(*call, 400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided.");
  }
  const std::string name = adapter.id;
  if (has_own(registry, call->owner(), name)) {
    return fail_as_vllm(*call, 400, "InvalidUserInput",
                        fmt::format("The lora adapter '{}' has already been loaded.", name));
  }
  const auto added = register_below_root(registry, std::move(adapter), options);
  if (const auto* fault = std::get_if<ApiError>(&added)) {
    const std::string_view type = fault->status == 404 ? "NotFoundError" : "BadRequestError";
    return fail_as_vllm(*call, fault->status, type, fault->text);
  }
  answer_text(*call, fmt::format("Success: LoRA adapter '{}' added successfully.", name));
}

void unload_lora_adapter(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string name = name_of(fields, kUnloadLoraFields["lora_name"]);
  if (fields.failed()) return fail_as_vllm(*call, 400, "InvalidUserInput", fields.fault().text);
  if (name.empty()) {
    return fail_as_vllm(*call, 400, "InvalidUserInput",
                        "'lora_name' needs to be provided to unload a LoRA adapter.");
  }
  if (!call->service().families.adapters->remove(call->owner(), name, {})) {
    return fail_as_vllm(*call, 404, "NotFoundError",
                        fmt::format("The lora adapter '{}' cannot be found.", name));
  }
  answer_text(*call, fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
}

void list_lora_scales(std::shared_ptr<Call> call) {
  JsonWriter json;
  json.begin_array();
  for (const AdapterEntry& entry : call->service().families.adapters->list(call->owner())) {
    json.begin_object().member("id", entry.number).member("path", shown_root(entry, call->trusted()));
    json.key("scale").raw(fmt::format("{:#}", entry.global_scale)).end_object();
  }
  call->respond_json(json.end_array().take());
}

void set_lora_scales(std::shared_ptr<Call> call) {
  const auto body = parse_json(call->bytes(), {.max_bytes = call->service().options.limits.max_body_bytes});
  if (!body) return call->fail(api_error(body.error()));
  const auto scales = read_listed("the body", *body);
  if (const auto* fault = std::get_if<ApiError>(&scales)) return call->fail(*fault);
  const auto fault = call->service().families.adapters->set_global_scales(
      call->owner(), std::get<std::vector<ListedAdapter>>(scales));
  if (fault) return call->fail(*fault);
  call->respond_json(R"({"success":true})");
}

}  // namespace fulmar
