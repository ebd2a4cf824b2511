// From the fields of administration requests to the administrator, and back.
#include "server/api_admin.h"

#include "base/log.h"
#include "net/json_writer.h"
#include "server/call.h"
#include "server/fields.h"

namespace fulmar {
namespace {

constexpr std::string_view kSuccess = R"({"status":"success"})";
constexpr std::string_view kBadState = "State file is incorrect. check filename or tensor size.";

// Runs `job` on the administrator's thread, or answers why not.
void run_job(const std::shared_ptr<Call>& call, std::function<void(ModelAdmin&)> job) {
  ModelAdmin* admin = call->service().admin;
  if (!admin) return call->fail({501, "This server does not load models", {}, "unsupported", {}});
  if (!admin->post([admin, job = std::move(job)] { job(*admin); })) {
    call->fail({503, "Too many loads are waiting", {}, "queue_full", {}});
  }
}

std::string required(Fields& fields, std::string_view name) {
  std::string text = fields.text(name).value_or(std::string());
  if (text.empty()) fields.fail(bad_value("'" + std::string(name) + "' is required", std::string(name)));
  return text;
}

std::optional<double> temperature(Fields& fields) { return fields.number("default_temperature", 0, 1000); }
std::optional<double> top_p(Fields& fields) { return fields.number("default_top_p", 0, 1); }

}  // namespace

void load_model_file(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  ModelLoad load;
  load.path = required(fields, "model_filename");
  load.name = fields.text("model_viewname").value_or(std::string());
  if (load.name.empty()) load.name = "default model";
  load.precision = fields.text("model_strategy").value_or(std::string());
  load.vocabulary = fields.text("vocab_filename").value_or(std::string());
  load.default_temperature = temperature(fields);
  load.default_top_p = top_p(fields);
  if (fields.present("adapter_filename")) fields.fail(bad_value("adapters are not supported"));
  if (fields.failed()) return call->fail(fields.fault());
  run_job(call, [call, load](ModelAdmin& admin) {
    if (const Status fits = admin.check_load(load); !fits) {
      const int status = fits.error().kind == ErrorKind::not_found ? 500 : 400;
      return call->fail({status, fits.error().text, {}, {}, {}});
    }
    if (const Status loaded = admin.load_model(load); !loaded) {
      return call->fail({500, loaded.error().text, {}, {}, {}});
    }
    call->respond_json(std::string(kSuccess));
  });
}

void remove_models(std::shared_ptr<Call> call) {
  const JsonValue* field = call->body().find("model_viewname");
  const std::string name = field && field->is_string() ? field->as_string() : std::string();
  run_job(call, [call, name](ModelAdmin& admin) {
    if (!admin.remove_model(name) && !name.empty()) {
      return call->fail({404, "The model '" + name + "' is not loaded", {}, "not_found", {}});
    }
    call->respond_json(std::string(kSuccess));
  });
}

void load_state_file(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  StateLoad load;
  load.path = required(fields, "state_filename");
  load.name = required(fields, "state_viewname");
  load.default_temperature = temperature(fields);
  load.default_top_p = top_p(fields);
  if (fields.failed()) return call->fail(fields.fault());
  run_job(call, [call, load](ModelAdmin& admin) {
    if (const Status loaded = admin.load_state(load); !loaded) {
      spdlog::warn("tuned state '{}' not loaded: {}", load.name, loaded.error().text);
      return call->fail({500, std::string(kBadState), {}, {}, {}});
    }
    call->respond_json(std::string(kSuccess));
  });
}

void remove_states(std::shared_ptr<Call> call) {
  run_job(call, [call](ModelAdmin& admin) {
    admin.remove_states();
    call->respond_json(std::string(kSuccess));
  });
}

void load_available_model(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string id = required(fields, "model");
  if (fields.failed()) return call->fail(fields.fault());
  run_job(call, [call, id](ModelAdmin& admin) {
    if (const Status loaded = admin.load_available(id); !loaded) {
      return call->fail(bad_value(loaded.error().text, "model"));
    }
    JsonWriter json;
    json.begin_object().member("object", "model").member("id", id).member("loaded", true);
    call->respond_json(json.end_object().take());
  });
}

}  // namespace fulmar
