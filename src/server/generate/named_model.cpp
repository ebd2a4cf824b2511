// Loads a model before its request goes on.
#include "server/generate/named_model.h"

#include <string>

#include "server/adapters/adapter_registry.h"
#include "server/core/call.h"

namespace fulmar {
namespace {

constexpr std::string_view kLatest = ":latest";  // the tag that Ollama's clients add

std::string name_in(const JsonValue& body) {
  for (const std::string_view field : {"model", "name"}) {
    const JsonValue* value = body.find(field);
    if (value && value->is_string() && !value->as_string().empty()) return value->as_string();
  }
  return {};
}

}  // namespace

ServedModelPtr named_model(const Service& service, const Owner& owner, std::string_view name, bool strict,
                           std::string* adapter) {
  ServedModelPtr model = service.models.find(owner, name, true);
  if (model) return model;
  const std::string_view bare = name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
  model = service.families.adapters->model_of(owner, bare);
  if (!model) return strict ? nullptr : service.models.find(owner, name, false);
  if (adapter) *adapter = bare;
  return model;
}

void with_named_model(std::shared_ptr<Call> call, RouteHandler handle) {
  Service& service = call->service();
  const std::string name = name_in(call->body());
  const bool at_hand = name.empty() || named_model(service, call->owner(), name, true);
  if (at_hand || !service.admin || !call->may_administer() || !service.admin->is_installed(name)) {
    return handle(std::move(call));
  }
  const std::shared_ptr<JsonValue> body = call->keep_body();
  const auto load = [call, name, handle, body] {
    const Status loaded = call->service().admin->load_installed(name);
    if (!loaded.ok()) return call->fail(api_error(loaded.error()));
    Call::resume(call, body, [call, handle] { handle(call); });
  };
  if (!service.admin->post([call, load] { call->guard(load); })) {
    call->fail({503, "Too many loads are waiting", {}, "queue_full", {}});
  }
}

}  // namespace fulmar
