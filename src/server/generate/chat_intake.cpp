// Reads messages and renders them with the model's chat template.
#include "server/generate/chat_intake.h"

#include <fmt/format.h>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "server/generate/answer_rules.h"

namespace fulmar {
namespace {

// Joins the content of a message: a string, or an array of text parts and strings. Empty for null or absent.
std::optional<std::string> content_text(Fields& fields, const JsonValue* content, const std::string& place) {
  if (!content || content->is_null()) return std::string();
  if (content->is_string()) return content->as_string();
  if (!content->is_array()) {
    fields.fail_type(place, *content, "a string or an array of text parts");
    return std::nullopt;
  }
  std::string text;
  for (const JsonValue& part : content->as_array()) {
    if (part.is_string()) {
      text += part.as_string();
      continue;
    }
    const JsonValue* type = part.find("type");
    const JsonValue* words = part.find("text");
    if (!type || !type->is_string() || type->as_string() != "text" || !words || !words->is_string()) {
      const std::string found =
          type && type->is_string() ? "a part of type " + describe(*type) : describe(part);
      fields.fail(
          bad_value(fmt::format("'{}' holds {}; only text parts are supported", place, found), "messages"));
      return std::nullopt;
    }
    text += words->as_string();
  }
  return text;
}

// Reads an optional string member of a message.
std::string member_text(Fields& fields, const JsonValue& message, std::string_view name,
                        const std::string& place) {
  const JsonValue* member = message.find(name);
  if (!member || member->is_null()) return {};
  if (member->is_string()) return member->as_string();
  fields.fail_type(fmt::format("{}.{}", place, name), *member, "a string");
  return {};
}

void read_tool_calls(Fields& fields, const JsonValue& message, const std::string& place,
                     std::vector<ToolCall>& calls) {
  const JsonValue* list = message.find("tool_calls");
  if (!list || list->is_null()) return;
  if (!list->is_array()) return fields.fail_type(place + ".tool_calls", *list, "an array");
  for (const JsonValue& element : list->as_array()) {
    const JsonValue* function = element.find("function");
    const std::string where = place + ".tool_calls";
    if (!function || !function->is_object()) {
      return fields.fail(bad_value("'" + where + "' holds a call without a function", "messages"));
    }
    calls.push_back({member_text(fields, element, "id", where), member_text(fields, *function, "name", where),
                     member_text(fields, *function, "arguments", where)});
  }
}

bool read_message(Fields& fields, const JsonValue& value, size_t index, std::vector<ChatMessage>& messages) {
  const std::string place = fmt::format("messages[{}]", index);
  if (!value.is_object()) {
    fields.fail_type(place, value, "an object");
    return false;
  }
  ChatMessage message;
  message.role = member_text(fields, value, "role", place);
  if (!fields.failed() && message.role.empty()) {
    fields.fail(bad_value(fmt::format("'{}' has no role", place), "messages"));
  }
  const auto content = content_text(fields, value.find("content"), place + ".content");
  if (content) message.content = *content;
  message.name = member_text(fields, value, "name", place);
  message.tool_call_id = member_text(fields, value, "tool_call_id", place);
  read_tool_calls(fields, value, place, message.tool_calls);
  messages.push_back(std::move(message));
  return !fields.failed();
}

// Reads `reasoning_effort`, or `reasoning.effort` as clients of /v1/responses send it.
std::optional<std::string> read_effort(Fields& fields) {
  if (fields.find(kThinkFields["reasoning_effort"])) return fields.text(kThinkFields["reasoning_effort"]);
  const JsonValue* reasoning = fields.find(kThinkFields["reasoning"]);
  const JsonValue* effort = reasoning ? reasoning->find("effort") : nullptr;
  if (!effort || effort->is_null()) return std::nullopt;
  if (effort->is_string()) return effort->as_string();
  fields.fail_type("reasoning.effort", *effort, "a string");
  return std::nullopt;
}

// Parses a function's description, written by answer_rules, for templates that render its parts.
ToolDescription described(std::string json) {
  ToolDescription tool{.json = std::move(json)};
  const auto value = parse_json(tool.json);
  if (!value) return tool;
  const JsonValue *name = value->find("name"), *text = value->find("description");
  const JsonValue* parameters = value->find("parameters");
  if (name && name->is_string()) tool.name = name->as_string();
  if (text && text->is_string()) tool.description = text->as_string();
  if (parameters && !parameters->is_null()) tool.parameters = json_text(*parameters);
  return tool;
}

// Reads `enable_think`, or vLLM's `chat_template_kwargs.enable_thinking`; ignores other template arguments,
// as vLLM does.
std::optional<bool> read_enabled(Fields& fields) {
  const JsonObject* arguments = fields.object(kThinkFields["chat_template_kwargs"]);
  const JsonValue* enabled = arguments ? arguments->find("enable_thinking") : nullptr;
  if (enabled && !enabled->is_null() && !lenient_bool(*enabled)) {
    fields.fail(bad_value(
        fmt::format("'chat_template_kwargs.enable_thinking' is {}; wanted true or false", describe(*enabled)),
        "chat_template_kwargs"));
    return std::nullopt;
  }
  const std::optional<bool> told = fields.boolean(kThinkFields["enable_think"]);
  if (told || !enabled || enabled->is_null()) return told;
  return lenient_bool(*enabled);
}

}  // namespace

bool begins_with_zero(const ServedModel& model) {
  return model.prompt_template->end_token_first && model.end_token == 0;
}

std::vector<int32_t> chat_tokens(const ServedModel& model, const std::string& text) {
  std::vector<int32_t> ids;
  if (begins_with_zero(model)) ids.push_back(0);
  model.tokenizer->encode(text, ids);
  return ids;
}

std::vector<ChatMessage> read_messages(Fields& fields) {
  std::vector<ChatMessage> messages;
  const JsonValue* list = fields.find(kMessageFields["messages"]);
  if (!list) return messages;
  if (!list->is_array()) {
    fields.fail_type("messages", *list, "an array of messages");
    return messages;
  }
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    if (!read_message(fields, list->as_array()[i], i, messages)) break;
  }
  return messages;
}

ThinkMode read_think_mode(Fields& fields, const ServedModel& model, ThinkMode think_off) {
  const ThinkRequest request{fields.text(kThinkFields["think_type"]), fields.boolean(kThinkFields["think"]),
                             read_enabled(fields), read_effort(fields)};
  // Tuned states are trained on plain turns.
  const bool asked = request.think_type || request.think || request.enable_think || request.reasoning_effort;
  if (!model.initial_state.empty() && !asked) return ThinkMode::none;
  const Result<ThinkMode> mode = choose_think_mode(request, think_off, model.thinks);
  if (mode) return *mode;
  fields.fail(bad_value(mode.error().text, "reasoning_effort"));
  return think_off;
}

std::optional<ChatPrompt> render_messages(Fields& fields, const ServedModel& model, const ChatRoute& route,
                                          const std::vector<ChatMessage>& messages, ToolTalk talk) {
  ChatOptions options;
  options.prompt_template = model.prompt_template;
  options.think = read_think_mode(fields, model, route.think_off);
  options.clean_up = route.clean_up;
  options.names.user = fields.text(kWordingFields["user_name"]).value_or("");
  options.names.assistant = fields.text(kWordingFields["assistant_name"]).value_or("");
  options.names.system = fields.text(kWordingFields["system_name"]).value_or("");
  options.add_generation_prompt = fields.flag(kWordingFields["add_generation_prompt"]);
  options.system = fields.text(kMessageFields["system"]).value_or("");
  for (std::string& description : talk.descriptions)
    options.tools.push_back(described(std::move(description)));
  options.calls_before = std::move(talk.calls_before);
  const bool forced = fields.boolean(kThinkFields["force_reasoning"]).value_or(is_thinking(options.think));
  if (fields.failed()) return std::nullopt;
  Result<std::string> text = render_chat(messages, options);
  const ThinkMode think = options.add_generation_prompt ? options.think : ThinkMode::none;
  if (text) return ChatPrompt{std::move(*text), think, forced};
  fields.fail(bad_value(text.error().text, "messages"));
  return std::nullopt;
}

std::optional<ChatPrompt> read_chat(Fields& fields, const ServedModel& model, const ChatRoute& route) {
  const std::vector<ChatMessage> messages = read_messages(fields);
  ToolTalk talk;
  if (route.takes_tools) talk.descriptions = read_tools(fields, ToolForm::nested).descriptions;
  if (fields.failed()) return std::nullopt;
  return render_messages(fields, model, route, messages, std::move(talk));
}

}  // namespace fulmar
