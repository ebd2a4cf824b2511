// The fields of a response to a submission on sessions of its own.
#include "server/api_responses.h"

#include <fmt/format.h>

#include "net/json_writer.h"
#include "server/chat_intake.h"
#include "server/intake.h"
#include "server/responses_writer.h"

namespace fulmar {
namespace {

// Functions are not offered on this route.
constexpr ChatRoute kResponses{ThinkMode::fast, CleanUp::collapse};

std::string item_text(Fields& fields, const JsonValue* content, const std::string& place) {
  if (content && content->is_string()) return content->as_string();
  if (!content || !content->is_array()) {
    fields.fail(bad_value(fmt::format("'{}.content' is {}; wanted a string or an array of text parts", place,
                                      content ? describe(*content) : "absent"),
                          "input"));
    return {};
  }
  std::string text;
  for (const JsonValue& part : content->as_array()) {
    const JsonValue* words = part.find("text");
    if (!words || !words->is_string()) {
      fields.fail(bad_value(
          fmt::format("'{}.content' holds {}; only text parts are supported", place, describe(part)),
          "input"));
      return {};
    }
    text += words->as_string();
  }
  return text;
}

// A string, or a list of messages.
std::vector<ChatMessage> read_input(Fields& fields) {
  std::vector<ChatMessage> messages;
  const JsonValue* input = fields.find("input");
  if (!holds_something(input)) {
    fields.fail(bad_value("'input' is required", "input", "missing_input"));
    return messages;
  }
  const auto add = [&](std::string role, std::string content) {
    ChatMessage& message = messages.emplace_back();
    message.role = std::move(role);
    message.content = std::move(content);
  };
  if (input->is_string()) {
    add("user", input->as_string());
    return messages;
  }
  if (!input->is_array()) {
    fields.fail_type("input", *input, "a string or an array of messages");
    return messages;
  }
  for (const JsonValue& item : input->as_array()) {
    const std::string place = fmt::format("input[{}]", messages.size());
    const JsonValue* type = item.find("type");
    const JsonValue* role = item.find("role");
    const bool message = !type || (type->is_string() && type->as_string() == "message");
    if (!message || !role || !role->is_string()) {
      fields.fail(bad_value(fmt::format("'{}' is no message with a role", place), "input"));
      return messages;
    }
    add(role->as_string(), item_text(fields, item.find("content"), place));
  }
  return messages;
}

void refuse_unsupported(Fields& fields) {
  for (const std::string_view name : {"tools", "background", "conversation", "prompt"}) {
    const JsonValue* value = fields.find(name);
    if (!holds_something(value) || (value->is_bool() && !value->as_bool())) continue;
    fields.fail(bad_value(fmt::format("'{}' is not supported on /v1/responses; leave it out", name),
                          std::string(name), "unsupported_parameter"));
  }
}

AnswerRules read_text_format(Fields& fields) {
  const JsonObject* text = fields.object("text");
  const JsonValue* format = text ? text->find("format") : nullptr;
  if (!format || format->is_null()) return {};
  if (format->is_object()) return read_format(fields, &format->as_object(), "text.format");
  fields.fail_type("text.format", *format, "an object");
  return {};
}

// The engine's sessions outlive what the store forgets unless they are told.
void forget(const Service& service, const StoredResponse& response) {
  const ServedModelPtr model = service.models.find(response.model, true);
  if (model) model->engine->erase_session(response_session(response.id), false);
}

StateLink link_turn(const std::string& previous, const std::string& id, bool store, const std::string& prompt,
                    const Tokenizer& tokenizer) {
  StateLink link;
  if (!previous.empty()) {
    link = link_session({.id = response_session(previous)}, prompt, tokenizer);
    link.must_exist = true;
  }
  link.write_session = store ? response_session(id) : std::string();
  return link;
}

ApiError not_stored(const std::string& id, std::string_view param) {
  return {404, fmt::format("Response '{}' not found", id), std::string(param), "response_not_found", {}};
}

}  // namespace

void create_response(std::shared_ptr<Call> call) {
  Service& service = call->service();
  for (const StoredResponse& old : service.responses.take_expired(unix_seconds())) forget(service, old);

  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  ResponseFacts facts;
  std::vector<ChatMessage> messages = read_input(fields);
  facts.instructions = fields.text("instructions").value_or("");
  if (!facts.instructions.empty()) {
    ChatMessage instructions;
    instructions.role = "system";
    instructions.content = facts.instructions;
    messages.insert(messages.begin(), std::move(instructions));
  }
  refuse_unsupported(fields);
  facts.previous = fields.text("previous_response_id").value_or("");
  if (!facts.previous.empty() && !fields.failed()) {
    const auto previous = service.responses.find(facts.previous);
    if (!previous) return call->fail(not_stored(facts.previous, "previous_response_id"));
    if (previous->model != model->id) {
      fields.fail(bad_value(fmt::format("'previous_response_id' is of the model '{}', this request of '{}'",
                                        previous->model, model->id),
                            "previous_response_id"));
    }
  }
  if (fields.failed()) return call->fail(fields.fault());
  const auto prompt = render_messages(fields, *model, kResponses, messages);
  if (!prompt) return call->fail(fields.fault());

  const ServerLimits& limits = service.options.limits;
  Generation generation = read_generation(fields, kChatDefaults, *model, limits);
  if (const auto most = fields.integer("max_output_tokens", 0)) {
    generation.max_tokens = std::min(*most, limits.max_tokens);
  }
  const AnswerRules rules = read_text_format(fields);
  constrain(fields, service, model, prompt->think, rules, "text", generation);
  facts.store = fields.boolean("store").value_or(true);
  facts.model = model_name(fields, model->id);
  if (fields.failed()) return call->fail(fields.fault());
  if (prompt->force_reasoning) force_reasoning(generation, *model->tokenizer);

  facts.id = new_request_id("resp_");
  facts.created = unix_seconds();
  facts.model_id = model->id;
  facts.format = rules.schema ? "json_schema" : rules.json_object ? "json_object" : "text";
  facts.max_tokens = generation.max_tokens;
  facts.temperature = static_cast<double>(generation.sampling.temperature);
  facts.top_p = static_cast<double>(generation.sampling.top_p);
  Submission submission;
  submission.model = model;
  submission.model_name = facts.model;
  submission.endpoint = "responses";
  submission.request_id = facts.id;
  submission.generation = std::move(generation);
  submission.prompts.push_back(model->tokenizer->encode(prompt->text));
  submission.state = link_turn(facts.previous, facts.id, facts.store, prompt->text, *model->tokenizer);
  submission.split = reasoning_mode(prompt->think, ReasoningFormat::split);
  auto writer = std::make_unique<ResponsesWriter>(call->shared_service(), std::move(facts));
  submit(std::move(call), std::move(submission), std::move(writer));
}

void show_response(std::shared_ptr<Call> call) {
  const auto stored = call->service().responses.find(call->argument());
  if (!stored) return call->fail(not_stored(call->argument(), {}));
  call->respond_json(stored->json);
}

void delete_response(std::shared_ptr<Call> call) {
  const auto stored = call->service().responses.take(call->argument());
  if (!stored) return call->fail(not_stored(call->argument(), {}));
  forget(call->service(), *stored);
  JsonWriter json;
  json.begin_object().member("id", stored->id).member("object", "response").member("deleted", true);
  call->respond_json(json.end_object().take());
}

}  // namespace fulmar
