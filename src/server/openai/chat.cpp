// Reads the fields of a chat and submits it.
#include "server/openai/chat.h"

#include <fmt/format.h>

#include "net/json.h"
#include "server/generate/chat_intake.h"
#include "server/generate/intake.h"
#include "server/native/native_batch.h"
#include "server/openai/chat_writer.h"

namespace fulmar {
namespace {

ApiError unsupported(std::string_view name, std::string_view found, std::string_view supported) {
  return bad_value(fmt::format("'{}' is {}, which this server does not support; {}", name, found, supported),
                   std::string(name), "unsupported_parameter");
}

void refuse_unsupported(Fields& fields) {
  for (const std::string& kind : fields.texts(kChatFields["modalities"])) {
    if (kind != "text") fields.fail(unsupported("modalities", describe(JsonValue(kind)), "wanted \"text\""));
  }
}

// Checks fields that have no effect.
void check_ignored(Fields& fields) {
  fields.text(kChatFields["user"]);
  fields.text(kChatFields["runtime"]);
  read_metadata(fields);
  fields.boolean(kChatFields["store"]);
}

void read_logprobs(Fields& fields, ChatShape& shape, SamplingParams& sampling) {
  shape.logprobs = fields.flag(kChatFields["logprobs"]);
  const auto top = fields.integer(kChatFields["top_logprobs"]);
  if (top && !shape.logprobs) {
    fields.fail(bad_value("'top_logprobs' needs 'logprobs' to be true", "top_logprobs"));
  }
  if (shape.logprobs) sampling.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

// Reads the field `prediction`: {"type": "content", "content": text or text parts}.
std::vector<int32_t> read_prediction(Fields& fields, const ServedModel& model) {
  const JsonObject* prediction = fields.object(kChatFields["prediction"]);
  if (!prediction) return {};
  const JsonValue* type = prediction->find("type");
  if (!type || !type->is_string() || type->as_string() != "content") {
    fields.fail_type("prediction.type", type ? *type : JsonValue(), "\"content\"");
    return {};
  }
  const JsonValue* content = prediction->find("content");
  std::string text;
  if (content && content->is_array()) {
    for (const JsonValue& part : content->as_array()) {
      const JsonValue* piece = part.is_object() ? part.as_object().find("text") : nullptr;
      if (!piece || !piece->is_string()) {
        fields.fail_type("prediction.content", part, "parts with a text");
        return {};
      }
      text += piece->as_string();
    }
  } else if (content && content->is_string()) {
    text = content->as_string();
  } else {
    fields.fail_type("prediction.content", content ? *content : JsonValue(), "a text or text parts");
  }
  return model.tokenizer->encode(text);
}

std::optional<ReasoningMode> read_split(Fields& fields, const ServedModel& model, ThinkMode think) {
  const auto name = fields.word(kSplitFields["reasoning_format"]);
  const auto format = parse_reasoning_format(name.value_or("auto"));
  return format ? std::optional(reasoning_mode(think, *format, *model.prompt_template)) : std::nullopt;
}

// Submits a chat. `raw`: the continuation is returned unchanged except for leading blanks, and the answer
// names the model by its own id.
void submit_chat(std::shared_ptr<Call> call, Fields& fields, ServedModelPtr model, const ChatPrompt& prompt,
                 const ToolUse& tools, bool raw) {
  Submission submission;
  ChatShape shape;
  const ServerOptions& options = call->service().options;
  const GenerationDefaults defaults = chat_defaults(*model, prompt.think, options);
  Generation generation = read_generation(fields, defaults, *model, options.limits);
  refuse_unsupported(fields);
  check_ignored(fields);
  read_logprobs(fields, shape, generation.sampling);
  generation.prediction = read_prediction(fields, *model);
  shape.calls = expected_calls(tools, model->prompt_template->calls);
  if (!raw) {
    submission.split = read_split(fields, *model, prompt.think);
  } else if (!is_thinking(prompt.think)) {
    submission.split = ReasoningMode{};  // nothing but the leading blanks goes
  }
  const bool apart = submission.split && submission.split->kind == ReasoningMode::Kind::split;
  shape.thinks_in_text = is_thinking(prompt.think) && !apart;
  submission.rows_per_prompt = static_cast<int32_t>(fields.count(kChatFields["n"]));
  shape.service_tier = fields.word(kAccountFields["service_tier"]).has_value();
  shape.include_usage = wants_usage(fields);
  submission.model_name = raw ? model->id : model_name(fields, model->id);
  if (const auto session = read_session(*call, fields)) {
    if (submission.rows_per_prompt > 1) {
      fields.fail(
          bad_value("'n' above 1 cannot be combined with 'session_id'", "n", "unsupported_parameter"));
    }
    submission.state = link_session(*session, prompt.text, *model);
  }
  add_calls(fields, generation.answer, tools);
  submission.think = prompt.think;
  submission.reads_tools = true;
  if (fields.failed()) return call->fail(fields.fault());
  if (prompt.force_reasoning) force_reasoning(generation, *model->tokenizer);
  submission.generation = std::move(generation);
  submission.prompts.push_back(chat_tokens(*model, prompt.text));
  submission.endpoint = "chat.completions";
  submission.request_id = new_request_id("chatcmpl-");
  submission.model = model;
  auto writer = std::make_unique<ChatWriter>(
      AnswerHead{submission.request_id, {}, unix_seconds(), submission.model_name}, shape, *model->tokenizer);
  submit(std::move(call), std::move(submission), std::move(writer));
}

}  // namespace

void chat_on_v1(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  const std::vector<ChatMessage> messages = read_messages(fields);
  const ToolUse tools = read_tools(fields, ToolForm::nested);
  if (fields.failed()) return call->fail(fields.fault());
  const auto prompt = render_messages(fields, *model, kV1Chat, messages, {tools.descriptions});
  if (!prompt) return call->fail(fields.fault());
  submit_chat(std::move(call), fields, std::move(model), *prompt, tools, false);
}

void lightning_chat(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  std::vector<ChatMessage> messages = read_messages(fields);
  const auto contents = fields.texts(kContentsFields["contents"]);
  if (!contents.empty()) {
    ChatMessage& last = messages.emplace_back();
    last.role = "user";
    last.content = contents.front();
  }
  const bool in_session = read_session(*call, fields).has_value();
  if (in_session && contents.size() > 1) {
    fields.fail(bad_value("State mode only supports a single contents item", "contents"));
  }
  if (in_session && messages.empty()) {
    fields.fail(
        bad_value("State mode requires incremental contents or messages", "messages", "missing_input"));
  }
  if (!fields.failed() && messages.empty()) {
    fields.fail(bad_value("one of 'messages', 'contents' is required", "messages", "missing_input"));
  }
  const ToolUse tools = read_tools(fields, ToolForm::nested);
  if (fields.failed()) return call->fail(fields.fault());
  const auto prompt = render_messages(fields, *model, kLightningChat, messages, {tools.descriptions});
  if (!prompt) return call->fail(fields.fault());
  submit_chat(std::move(call), fields, std::move(model), *prompt, tools, true);
}

}  // namespace fulmar
