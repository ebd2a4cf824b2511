// Translates administration requests for the ModelAdmin and writes its results as answers.
#include "server/admin/loading.h"

#include <fmt/format.h>

#include <filesystem>

#include "adapters/adapter_flag.h"
#include "base/log.h"
#include "net/json_writer.h"
#include "server/adapters/registering.h"
#include "server/admin/admin_job.h"
#include "text/python_literal.h"

namespace fulmar {
namespace {

// Reads a text and decodes its backslash escapes as Python does, where clients of this field come from.
std::string decode_escapes(Fields& fields, TypedField<Takes::Type::text> one) {
  const std::string_view name = one.field.name;
  const std::string written = fields.text(one).value_or(std::string());
  std::string literal = "'";
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] == '\\' && i + 1 < written.size()) {
      literal += written[i++];
      literal += written[i];
    } else if (written[i] == '\n') {
      literal += "\\n";
    } else {
      if (written[i] == '\'') literal += '\\';
      literal += written[i];
    }
  }
  auto text = parse_python_literal(literal + "'");
  if (text) return std::move(*text);
  fields.fail(bad_value(fmt::format("'{}': {}", name, text.error().text), std::string(name)));
  return {};
}

// RWKV-Infer's adapter of a model: every row that names no other is computed with it.
struct DefaultAdapter {
  std::string path, mode;
  AdapterOptions options;
};

std::optional<DefaultAdapter> read_default_adapter(Fields& fields) {
  constexpr double kUsualScale = 2;  // as RWKV-Infer has it
  DefaultAdapter adapter;
  adapter.path = fields.text(kLoadFields["adapter_filename"]).value_or(std::string());
  adapter.mode = fields.word(kLoadFields["adapter_mode"]).value_or(std::string());
  adapter.options.scale = fields.number(kLoadFields["adapter_scaling"]);
  if (adapter.path.empty()) {
    if (!adapter.mode.empty()) {
      fields.fail(bad_value("adapter_mode has no effect without adapter_filename", "adapter_mode"));
    }
    return std::nullopt;
  }
  if (adapter.mode.empty()) {
    fields.fail(bad_value("adapter_filename needs adapter_mode: 'lora' or 'bone'", "adapter_mode"));
  }
  if (adapter.mode == "lora" && !adapter.options.scale) adapter.options.scale = kUsualScale;
  return adapter;
}

// Reads the adapter's file before the model is loaded, so that what is wrong with it changes nothing.
std::optional<ApiError> open_default_adapter(const AdapterRegistry& registry, const DefaultAdapter& wanted,
                                             NewAdapter& adapter) {
  auto parcel = read_below_root(registry, wanted.path, wanted.options);
  if (auto* fault = std::get_if<ApiError>(&parcel)) return std::move(*fault);
  adapter.parcel = std::get<AdapterParcel>(std::move(parcel));
  for (const Delta& delta : adapter.parcel.adapter.deltas) {
    const bool bone = delta.kind == DeltaKind::miss || delta.kind == DeltaKind::bat_in;
    if (bone == (wanted.mode == "bone")) continue;
    return bad_value(
        fmt::format("adapter_mode is '{}'; '{}' holds {}", wanted.mode, wanted.path, name_of(delta.kind)),
        "adapter_mode");
  }
  adapter.id = served_id(std::filesystem::path(wanted.path).filename().string());
  if (!is_adapter_name(adapter.id)) adapter.id = "adapter";
  adapter.root = wanted.path;
  adapter.global_scale = 1;
  adapter.only_base = true;
  return std::nullopt;
}

}  // namespace

void load_model_file(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  ModelLoad load;
  load.path = required_text(fields, kLoadFields["model_filename"]);
  load.name = fields.text(kLoadFields["model_viewname"]).value_or(std::string());
  if (load.name.empty()) load.name = "default model";
  load.precision = fields.text(kLoadFields["model_strategy"]).value_or(std::string());
  load.vocabulary = fields.text(kLoadFields["vocab_filename"]).value_or(std::string());
  load.end_text = decode_escapes(fields, kLoadFields["endtoken"]);
  fields.text(kLoadFields["template"]);  // of models that are not RWKV: the turns of these are of one form
  const SamplingDefaults defaults = read_sampling_defaults(fields);
  load.default_temperature = defaults.temperature;
  load.default_top_p = defaults.top_p;
  const std::optional<DefaultAdapter> adapter = read_default_adapter(fields);
  if (fields.failed()) return call->fail(fields.fault());
  run_admin_job(call, [call, load, adapter](ModelAdmin& admin) {
    if (const Status fits = admin.check_load(load); !fits) return call->fail(api_error(fits.error()));
    AdapterRegistry& registry = *call->service().families.adapters;
    NewAdapter read;
    if (adapter) {
      if (const auto fault = open_default_adapter(registry, *adapter, read)) return call->fail(*fault);
    }
    if (const Status loaded = admin.load_model(load); !loaded) return call->fail(api_error(loaded.error()));
    registry.forget_default_of(load.name);
    if (adapter) {
      read.base = load.name;
      const auto added = registry.add(std::move(read));
      if (const auto* fault = std::get_if<ApiError>(&added)) {
        admin.remove_model(load.name);
        return call->fail(*fault);
      }
    }
    const ServedModelPtr model = call->service().models.find(call->owner(), load.name, true);
    if (load.precision.empty() || !model) return call->respond_json(std::string(kAdminSuccess));
    JsonWriter json;
    json.begin_object().member("status", "success").member("model_strategy", load.precision);
    call->respond_json(json.member("weights", model->runtime).end_object().take());
  });
}

void remove_models(std::shared_ptr<Call> call) {
  const JsonValue* field = Fields(call->body()).find(kLoadedFields["model_viewname"]);
  const std::string name = field && field->is_string() ? field->as_string() : std::string();
  run_admin_job(call, [call, name](ModelAdmin& admin) {
    if (!admin.remove_model(name) && !name.empty()) {
      return call->fail({404, "The model '" + name + "' is not loaded", {}, "not_found", {}});
    }
    call->respond_json(std::string(kAdminSuccess));
  });
}

void load_state_file(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  StateLoad load;
  load.path = required_text(fields, kLoadStateFields["state_filename"]);
  load.name = required_text(fields, kLoadStateFields["state_viewname"]);
  const SamplingDefaults defaults = read_sampling_defaults(fields);
  load.default_temperature = defaults.temperature;
  load.default_top_p = defaults.top_p;
  if (fields.failed()) return call->fail(fields.fault());
  run_admin_job(call, [call, load](ModelAdmin& admin) {
    if (const Status loaded = admin.load_state(load); !loaded) {
      spdlog::warn("tuned state '{}' not loaded: {}", load.name, loaded.error().text);
      return call->fail(state_fault(loaded.error(), call->service().models.empty()));
    }
    call->respond_json(std::string(kAdminSuccess));
  });
}

void remove_states(std::shared_ptr<Call> call) {
  run_admin_job(call, [call](ModelAdmin& admin) {
    admin.remove_states();
    call->respond_json(std::string(kAdminSuccess));
  });
}

void load_available_model(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = required_text(fields, kAvailableFields["model"]);
  if (fields.failed()) return call->fail(fields.fault());
  run_admin_job(call, [call, id](ModelAdmin& admin) {
    if (const Status loaded = admin.load_available(id); !loaded) {
      return call->fail(bad_value(loaded.error().text, "model"));
    }
    JsonWriter json;
    json.begin_object().member("object", "model").member("id", id).member("loaded", true);
    call->respond_json(json.end_object().take());
  });
}

}  // namespace fulmar
