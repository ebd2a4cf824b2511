// Translates chats and completions of Ollama's clients to the server's own fields.
#include "server/ollama/ollama.h"

#include <fmt/format.h>

#include <deque>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "server/generate/chat_intake.h"
#include "server/generate/constraint_fields.h"
#include "server/generate/intake.h"
#include "server/generate/named_model.h"
#include "server/generate/translated_body.h"
#include "server/generate/writer_parts.h"
#include "server/ollama/ollama_writer.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

std::string text_of(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value && value->is_string() ? value->as_string() : std::string();
}

// Translates `think`: true and false, or a level such as "high".
void translate_think(Fields& fields, TranslatedBody& body) {
  const JsonValue* think = fields.find(kOllamaFields["think"]);
  if (!think) return;
  if (think->is_string() && !lenient_bool(*think)) {
    body.set("reasoning_effort", *think);
  } else {
    body.set("think", *think);
  }
}

// Translates `options`. A negative num_predict means no limit and is left out.
void translate_options(Fields& fields, TranslatedBody& body) {
  const JsonObject* options = fields.object(kOllamaFields["options"]);
  if (!options) return;
  const JsonValue all(*options);
  body.take_all_but(
      all, {"num_predict",      "num_ctx",      "repeat_penalty", "repeat_last_n", "tfs_z",   "typical_p",
            "mirostat",         "mirostat_tau", "mirostat_eta",   "num_keep",      "num_gpu", "num_thread",
            "num_batch",        "main_gpu",     "use_mmap",       "use_mlock",     "numa",    "low_vram",
            "penalize_newline", "model",        "messages",       "prompt",        "stream"});
  const JsonValue* most = all.find("num_predict");
  const auto count = most ? lenient_int(*most) : std::nullopt;
  if (most && !most->is_null() && !count)
    return fields.fail_type("options.num_predict", *most, "a whole number");
  if (count && *count >= 0) body.set("max_tokens", JsonValue(*count));
}

std::string model_or_name(Fields& fields) {
  const auto model = fields.text(kOllamaFields["model"]);
  return model ? *model : fields.text(kOllamaFields["name"]).value_or(std::string());
}

JsonValue translated(Fields& fields) {
  TranslatedBody own;
  const Field& options = kOllamaFields["options"];
  if (const JsonValue* value = fields.find(options)) fields.check_beside(*value, options.name);
  own.set("model", JsonValue(model_or_name(fields)));
  own.set("stream", JsonValue(fields.flag(kOllamaFields["stream"])));
  own.take(fields, kSessionFields["session_id"]);
  own.take(fields, kOllamaFields["state_id"]);
  own.take(fields, kOllamaFields["chat_template_kwargs"]);
  for (const FieldGroup* group :
       {static_cast<const FieldGroup*>(&kToolFields), static_cast<const FieldGroup*>(&kWhitespaceFields),
        static_cast<const FieldGroup*>(&kAdapterFields), &kConstraintFields}) {
    for (const Field& field : group->fields) own.take(fields, field);
  }
  translate_options(fields, own);
  translate_think(fields, own);
  return own.finish();
}

void refuse_images(Fields& fields, const JsonValue* images, std::string_view place) {
  if (holds_something(images))
    fields.fail(bad_value(fmt::format("'{}.images' holds images; only text is supported", place)));
}

// Gives ids to calls, which have none in this API: results belong to earlier calls by tool name or order.
class CallIds {
 public:
  std::string next(const std::string& name) {
    pending_.push_back({fmt::format("call_{}", count_++), name});
    return pending_.back().id;
  }
  // Returns the id of the first open call that a message with this tool name answers, and closes that call.
  // Empty: there is none.
  std::string answered(const std::string& name) {
    auto found = pending_.begin();
    while (found != pending_.end() && !name.empty() && found->name != name) ++found;
    if (found == pending_.end()) return {};
    std::string id = found->id;
    pending_.erase(found);
    return id;
  }

 private:
  struct Waiting {
    std::string id, name;
  };
  std::deque<Waiting> pending_;
  int count_ = 0;
};

void read_calls(Fields& fields, const JsonValue& list, const std::string& place, CallIds& ids,
                ChatMessage& message) {
  if (!list.is_array()) return fields.fail_type(place + ".tool_calls", list, "an array");
  for (const JsonValue& call : list.as_array()) {
    const JsonValue* function = call.find("function");
    const JsonValue* arguments = function ? function->find("arguments") : nullptr;
    if (!function || text_of(*function, "name").empty()) {
      return fields.fail(bad_value(fmt::format("'{}.tool_calls' holds a call without a function", place)));
    }
    const std::string name = text_of(*function, "name");
    message.tool_calls.push_back({ids.next(name), name, arguments ? json_text(*arguments) : "{}"});
  }
}

// Reads a string member of a message; empty when absent or null.
std::string text_in(Fields& fields, const JsonValue& message, const std::string& place,
                    std::string_view name) {
  const JsonValue* value = message.find(name);
  if (!value || value->is_null()) return {};
  if (!value->is_string()) fields.fail_type(fmt::format("{}.{}", place, name), *value, "a string");
  return value->is_string() ? value->as_string() : std::string();
}

std::vector<ChatMessage> read_conversation(Fields& fields) {
  std::vector<ChatMessage> messages;
  const JsonValue* list = fields.find(kOllamaChatFields["messages"]);
  if (!list) return messages;
  if (!list->is_array()) {
    fields.fail_type("messages", *list, "an array of messages");
    return messages;
  }
  CallIds ids;
  for (size_t i = 0; i < list->as_array().size() && !fields.failed(); ++i) {
    const JsonValue& one = list->as_array()[i];
    const std::string place = fmt::format("messages[{}]", i);
    ChatMessage message;
    message.role = text_in(fields, one, place, "role");
    message.content = text_in(fields, one, place, "content");
    if (message.role.empty()) fields.fail(bad_value(fmt::format("'{}' has no role", place), "messages"));
    refuse_images(fields, one.find("images"), place);
    if (const JsonValue* calls = one.find("tool_calls"); calls && !calls->is_null()) {
      read_calls(fields, *calls, place, ids, message);
    }
    if (message.role == "tool") message.tool_call_id = ids.answered(text_of(one, "tool_name"));
    messages.push_back(std::move(message));
  }
  return messages;
}

// Answers a request without input, with which Ollama's clients load a model; here it is loaded already.
void respond_loaded(Call& call, const std::string& model, bool chat) {
  JsonWriter json;
  json.begin_object()
      .member("model", model)
      .member("created_at", time_text(std::chrono::system_clock::now()));
  if (chat) {
    json.key("message").begin_object().member("role", "assistant").member("content", "").end_object();
  } else {
    json.member("response", "");
  }
  call.respond_json(json.member("done", true).member("done_reason", "load").end_object().take());
}

struct OllamaPrompt {
  std::vector<int32_t> ids;
  ThinkMode think = ThinkMode::none;
  bool force_reasoning = false;
  GenerationDefaults defaults = {};
  ToolUse tools = {};
};

void submit_ollama(std::shared_ptr<Call> call, Fields& fields, const ServedModelPtr& model,
                   OllamaPrompt prompt, OllamaFacts facts) {
  const GenerationDefaults& defaults = prompt.defaults;
  Submission submission;
  const ServerLimits& limits = call->service().options.limits;
  submission.generation = read_generation(fields, defaults, *model, limits);
  if (defaults.stops == DefaultStops::user_text) add_chat_stops(*model, submission.generation.stop);
  add_calls(fields, submission.generation.answer, prompt.tools);
  submission.think = prompt.think;
  submission.reads_tools = facts.chat;
  if (fields.failed()) return call->fail(fields.fault());
  if (prompt.force_reasoning) force_reasoning(submission.generation, *model->tokenizer);
  facts.calls = expected_calls(prompt.tools, model->prompt_template->calls);
  submission.prompts.push_back(std::move(prompt.ids));
  submission.model = model;
  submission.model_name = facts.model;
  submission.endpoint = facts.chat ? "ollama.chat" : "ollama.generate";
  submission.request_id = new_request_id("ollama-");
  if (defaults.stops == DefaultStops::user_text) {
    submission.split = reasoning_mode(prompt.think, ReasoningFormat::split, *model->prompt_template);
  }
  auto writer = std::make_unique<OllamaWriter>(std::move(facts));
  submit(std::move(call), std::move(submission), std::move(writer));
}

GenerationDefaults infill_defaults() {
  GenerationDefaults defaults = kCompletionDefaults;
  defaults.stops = DefaultStops::infill;
  return defaults;
}

void chat_on_model(std::shared_ptr<Call> call) {
  Fields sent(call->body());
  const std::vector<ChatMessage> messages = read_conversation(sent);
  const JsonValue body = translated(sent);
  if (sent.failed()) return call->fail(sent.fault());
  Fields fields(body);
  const ServedModelPtr model = pick_model(*call, fields);
  const ToolUse tools = read_tools(fields, ToolForm::nested);
  if (fields.failed()) return call->fail(fields.fault());
  OllamaFacts facts{
      .model = sent.text(kOllamaFields["model"]).value_or(model->id), .chat = true, .calls = {}};
  if (messages.empty()) return respond_loaded(*call, facts.model, true);
  const auto chat = render_messages(fields, *model, kV1Chat, messages, {tools.descriptions});
  if (!chat) return call->fail(fields.fault());
  const GenerationDefaults defaults = chat_defaults(*model, chat->think, call->service().options);
  OllamaPrompt prompt{chat_tokens(*model, chat->text), chat->think, chat->force_reasoning, defaults, tools};
  submit_ollama(std::move(call), fields, model, std::move(prompt), std::move(facts));
}

void generate_on_model(std::shared_ptr<Call> call) {
  Fields sent(call->body());
  const JsonValue body = translated(sent);
  const std::string text = sent.text(kOllamaGenerateFields["prompt"]).value_or(std::string());
  const std::string suffix = sent.text(kOllamaGenerateFields["suffix"]).value_or(std::string());
  const std::string system = sent.text(kOllamaGenerateFields["system"]).value_or(std::string());
  const bool raw = sent.flag(kOllamaGenerateFields["raw"]);
  if (sent.failed()) return call->fail(sent.fault());
  Fields fields(body);
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  OllamaFacts facts{
      .model = sent.text(kOllamaFields["model"]).value_or(model->id), .chat = false, .calls = {}};
  if (text.empty()) return respond_loaded(*call, facts.model, false);
  if (!suffix.empty() || raw) {
    const std::string prompt = suffix.empty() ? text : render_infill(text, suffix);
    OllamaPrompt whole{model->tokenizer->encode(prompt)};
    whole.defaults = suffix.empty() ? kCompletionDefaults : infill_defaults();
    return submit_ollama(std::move(call), fields, model, std::move(whole), std::move(facts));
  }
  std::vector<ChatMessage> messages;
  for (const auto& [role, content] :
       {std::pair<std::string, std::string>{"system", system}, {"user", text}}) {
    if (content.empty()) continue;
    messages.emplace_back().role = role;
    messages.back().content = content;
  }
  const auto chat = render_messages(fields, *model, kV1Chat, messages);
  if (!chat) return call->fail(fields.fault());
  const GenerationDefaults defaults = chat_defaults(*model, chat->think, call->service().options);
  OllamaPrompt prompt{chat_tokens(*model, chat->text), chat->think, chat->force_reasoning, defaults};
  submit_ollama(std::move(call), fields, model, std::move(prompt), std::move(facts));
}

}  // namespace

void ollama_chat(std::shared_ptr<Call> call) { with_named_model(std::move(call), chat_on_model); }
void ollama_generate(std::shared_ptr<Call> call) { with_named_model(std::move(call), generate_on_model); }

}  // namespace fulmar
