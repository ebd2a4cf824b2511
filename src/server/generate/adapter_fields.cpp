// Reads the fields and leases adapters.
#include "server/generate/adapter_fields.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "net/json.h"
#include "server/adapters/adapter_registry.h"
#include "server/adapters/listed_adapters.h"

namespace fulmar {

AdapterWish read_adapter_wish(Fields& fields) {
  AdapterWish wish;
  wish.id = fields.text(kAdapterFields["adapter_id"]).value_or(std::string());
  wish.version = fields.text(kAdapterFields["adapter_version"]).value_or(std::string());
  if (const JsonValue* scale = fields.find(kAdapterFields["adapter_scale"])) {
    wish.scale = lenient_number(*scale);
    // rwkv_lightning's words.
    if (!wish.scale) fields.fail(bad_value("adapter_scale must be numeric", "adapter_scale"));
  }
  if (const JsonValue* value = fields.find(kAdapterFields["lora"])) {
    auto list = read_listed("'lora'", *value);
    if (auto* fault = std::get_if<ApiError>(&list)) {
      fault->param = "lora";
      fields.fail(std::move(*fault));
    } else {
      wish.list = std::get<std::vector<ListedAdapter>>(std::move(list));
    }
  }
  return wish;
}

ServedModelPtr adapted(const Service& service, const Owner& owner, Fields& fields,
                       const ServedModelPtr& model, const AdapterWish& wish) {
  auto chosen = service.families.adapters->choose(owner, model, wish);
  if (auto* fault = std::get_if<ApiError>(&chosen)) {
    fields.fail(std::move(*fault));
    return nullptr;
  }
  auto choice = std::make_shared<const AdapterChoice>(std::get<AdapterChoice>(std::move(chosen)));
  if (choice->id.empty()) return model;
  const bool two_states =
      !choice->initial_state.empty() && (!model->initial_state.empty() || !model->mixture.empty());
  if (two_states) {
    fields.fail(bad_value(
        fmt::format("adapter '{}' brings an initial state, and the request names another; wanted one of them",
                    choice->id),
        "state_id"));
    return nullptr;
  }
  return with_adapter(model, choice, choice->initial_state);
}

std::optional<ApiError> lease_adapter(const Service& service, const ServedModelPtr& model, AdapterUse& use) {
  if (!model->adapter) return std::nullopt;
  auto leased = service.families.adapters->lease(*model->adapter, model);
  if (auto* fault = std::get_if<ApiError>(&leased)) return std::move(*fault);
  use = std::get<AdapterUse>(std::move(leased));
  const AdapterChoice& choice = *model->adapter;
  use.label = std::make_shared<const AdapterLabel>(AdapterLabel{choice.id, choice.version, choice.scale});
  return std::nullopt;
}

void with_adapter_ready(std::shared_ptr<Call> call, const ServedModelPtr& model,
                        std::function<void(AdapterUse)> then) {
  const auto go_on = [call, model, then = std::move(then)] {
    AdapterUse use;
    if (const auto fault = lease_adapter(call->service(), model, use)) return call->fail(*fault);
    then(std::move(use));
  };
  if (identity_of(*model).empty()) return go_on();
  const auto body = call->keep_body();
  Call::resume(std::move(call), body, go_on, ThreadKind::sessions);
}

const std::string& identity_of(const ServedModel& model) {
  static const std::string none;
  return model.adapter ? model.adapter->identity : none;
}

}  // namespace fulmar
