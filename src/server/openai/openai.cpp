// Chooses the family on shared paths, and lists models.
#include "server/openai/openai.h"

#include "net/json_writer.h"
#include "server/adapters/adapter_registry.h"
#include "server/core/call.h"
#include "server/core/fields.h"
#include "server/generate/input_kind.h"
#include "server/generate/writer_parts.h"
#include "server/native/batch.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"

namespace fulmar {
namespace {

bool present(const JsonValue& body, std::string_view name) { return holds_something(body.find(name)); }

ApiError ambiguous(const JsonValue& body) {
  const std::string first = present(body, "messages") ? "messages" : "contents";
  const std::string second = first == "messages" && present(body, "contents") ? "contents" : "prompt";
  return bad_value("'" + first + "' and '" + second +
                       "' cannot be combined; send exactly one of 'messages', 'contents', 'prompt'",
                   second, "ambiguous_input");
}

ApiError missing(const JsonValue& body, std::string usual) {
  const JsonValue* contents = body.find("contents");
  if (contents && !contents->is_null()) return bad_value("Empty prompts list");
  return bad_value("one of 'messages', 'contents', 'prompt' is required", std::move(usual), "missing_input");
}

std::string public_name(const ServedModel& model) {
  return model.initial_state.empty() ? model.id : model.id + " " + session_id_of(model.initial_state);
}

// Lists every model, each followed by its variants with tuned states.
std::vector<ServedModelPtr> models_and_states(const Call& call) {
  const ModelRegistry& models = call.service().models;
  std::vector<ServedModelPtr> list;
  for (const ServedModelPtr& model : models.all()) {
    list.push_back(model);
    for (const TunedState& state : models.states(call.owner(), model->id)) {
      if (auto started = models.with_state(call.owner(), model, state.name))
        list.push_back(std::move(started));
    }
  }
  return list;
}

void write_model(JsonWriter& json, const ServedModel& model) {
  json.begin_object()
      .member("id", public_name(model))
      .member("object", "model")
      .member("created", model.created)
      .member("owned_by", "fulmar")
      .end_object();
}

// Writes an adapter as a model, as vLLM does.
void write_adapter(JsonWriter& json, const AdapterEntry& entry, bool trusted) {
  json.begin_object()
      .member("id", entry.id)
      .member("object", "model")
      .member("created", entry.created)
      .member("owned_by", "fulmar")
      .member("root", shown_root(entry, trusted))
      .member("parent", entry.base)
      .end_object();
}

// Lists the adapters that the caller may use and whose base model is loaded.
std::vector<AdapterEntry> adapters_of(const Call& call) {
  std::vector<AdapterEntry> all = call.service().families.adapters->list(call.owner());
  std::erase_if(all, [&](const AdapterEntry& entry) {
    return !call.service().models.find(call.owner(), entry.base, true);
  });
  return all;
}

// Answers /v1/models in the shape of Anthropic's API, whose clients send its version in a header.
void list_for_anthropic(Call& call) {
  const auto list = models_and_states(call);
  JsonWriter json;
  json.begin_object().key("data").begin_array();
  for (const ServedModelPtr& model : list) {
    json.begin_object().member("type", "model").member("id", public_name(*model));
    json.member("display_name", public_name(*model));
    json.member("created_at",
                time_text(std::chrono::system_clock::time_point(std::chrono::seconds(model->created))));
    json.end_object();
  }
  json.end_array().member("has_more", false).key("first_id");
  list.empty() ? json.null() : json.value(public_name(*list.front()));
  json.key("last_id");
  list.empty() ? json.null() : json.value(public_name(*list.back()));
  call.respond_json(json.end_object().take());
}

// Generates according to the kind of input in the body. `usual`: the field that requests to the path hold
// most often, for the error when there is none.
void generate_by_input(std::shared_ptr<Call> call, const std::string& usual) {
  switch (input_kind(call->body())) {
    case InputKind::messages:
      return chat_on_v1(std::move(call));
    case InputKind::contents:
      return contents_on_chat_path(std::move(call));
    case InputKind::prompt:
      return complete_text(std::move(call));
    case InputKind::several:
      return call->fail(ambiguous(call->body()));
    case InputKind::none:
      return call->fail(missing(call->body(), usual));
  }
}

}  // namespace

void chat_by_input(std::shared_ptr<Call> call) { generate_by_input(std::move(call), "messages"); }
void complete_by_input(std::shared_ptr<Call> call) { generate_by_input(std::move(call), "prompt"); }

void list_models(std::shared_ptr<Call> call) {
  const Service& service = call->service();
  if (!call->request().headers.get("anthropic-version").empty()) return list_for_anthropic(*call);
  JsonWriter json = begin_list();
  for (const ServedModelPtr& model : models_and_states(*call)) write_model(json, *model);
  for (const AdapterEntry& entry : adapters_of(*call)) write_adapter(json, entry, call->trusted());
  json.end_array();
  const auto available = service.admin ? service.admin->available() : std::vector<std::string>();
  if (!available.empty()) {
    const ServedModelPtr loaded = service.models.default_model();
    json.key("loaded");
    loaded ? json.value(loaded->id) : json.null();
    json.key("available").begin_array();
    for (const std::string& id : available) json.value(id);
    json.end_array();
  }
  call->respond_json(json.end_object().take());
}

void show_model(std::shared_ptr<Call> call) {
  for (const ServedModelPtr& model : models_and_states(*call)) {
    if (call->argument() != public_name(*model) && call->argument() != model->view_name) continue;
    JsonWriter json;
    write_model(json, *model);
    return call->respond_json(json.take());
  }
  for (const AdapterEntry& entry : adapters_of(*call)) {
    if (call->argument() != entry.id) continue;
    JsonWriter json;
    write_adapter(json, entry, call->trusted());
    return call->respond_json(json.take());
  }
  call->fail({404, "The model '" + call->argument() + "' does not exist", "model", "model_not_found", {}});
}

void list_model_names(std::shared_ptr<Call> call) {
  JsonWriter json;
  json.begin_array();
  for (const ServedModelPtr& model : models_and_states(*call)) {
    json.begin_object().member("object", "models").member("id", public_name(*model)).end_object();
  }
  json.end_array();
  call->respond_json(json.take());
}

}  // namespace fulmar
