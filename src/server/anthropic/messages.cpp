// Reading Anthropic's blocks, tools and parameters.
#include "server/anthropic/messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/anthropic/messages_writer.h"
#include "server/generate/chat_intake.h"
#include "server/generate/intake.h"
#include "server/generate/translated_body.h"

namespace fulmar {
namespace {

const std::string* text_member(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

std::string type_of(const JsonValue& block) {
  const std::string* type = text_member(block, "type");
  return type ? *type : std::string();
}

void add_text(std::string& to, const std::string& text) {
  if (!to.empty() && !text.empty()) to += "\n";
  to += text;
}

// Reads a string or an array of text blocks.
std::string read_text(Fields& fields, const JsonValue* content, const std::string& place) {
  if (!content || content->is_null()) return {};
  if (content->is_string()) return content->as_string();
  std::string text;
  if (!content->is_array()) {
    fields.fail_type(place, *content, "a string or an array of text blocks");
    return text;
  }
  for (const JsonValue& block : content->as_array()) {
    const std::string* words = text_member(block, "text");
    if (type_of(block) != "text" || !words) {
      fields.fail(bad_value(
          fmt::format("'{}' holds {}; only text blocks are supported", place, describe(block)), place));
      break;
    }
    add_text(text, *words);
  }
  return text;
}

void read_tool_use(Fields& fields, const JsonValue& block, const std::string& place, ChatMessage& message) {
  const std::string *id = text_member(block, "id"), *name = text_member(block, "name");
  const JsonValue* input = block.find("input");
  if (!id || !name || (input && !input->is_object())) {
    return fields.fail(
        bad_value(fmt::format("'{}' is no tool_use with id, name and input", place), "messages"));
  }
  message.tool_calls.push_back({*id, *name, input ? json_text(*input) : "{}"});
}

void read_tool_result(Fields& fields, const JsonValue& block, const std::string& place,
                      std::vector<ChatMessage>& messages) {
  const std::string* id = text_member(block, "tool_use_id");
  if (!id) return fields.fail(bad_value(fmt::format("'{}' has no tool_use_id", place), "messages"));
  ChatMessage& result = messages.emplace_back();
  result.role = "tool";
  result.tool_call_id = *id;
  result.content = read_text(fields, block.find("content"), place + ".content");
  const JsonValue* failed = block.find("is_error");
  if (failed && lenient_bool(*failed).value_or(false)) result.content = "Error: " + result.content;
}

// Reads the blocks of one message. Tool results become messages of their own, before the rest; earlier
// thinking is not sent to the model again.
void read_blocks(Fields& fields, const JsonValue::Array& blocks, const std::string& place,
                 std::vector<ChatMessage>& messages, ChatMessage message) {
  for (size_t i = 0; i < blocks.size() && !fields.failed(); ++i) {
    const std::string here = fmt::format("{}.content[{}]", place, i);
    const std::string type = type_of(blocks[i]);
    const std::string* words = text_member(blocks[i], "text");
    if (type == "text" && words) {
      add_text(message.content, *words);
    } else if (type == "tool_use") {
      read_tool_use(fields, blocks[i], here, message);
    } else if (type == "tool_result") {
      read_tool_result(fields, blocks[i], here, messages);
    } else if (type != "thinking" && type != "redacted_thinking") {
      fields.fail(bad_value(
          fmt::format("'{}' is a block of type '{}'; wanted text, tool_use, tool_result or thinking", here,
                      type),
          "messages"));
    }
  }
  if (!message.content.empty() || !message.tool_calls.empty()) messages.push_back(std::move(message));
}

std::vector<ChatMessage> read_conversation(Fields& fields) {
  std::vector<ChatMessage> messages;
  ChatMessage system;
  system.role = "system";
  system.content = read_text(fields, fields.find(kConversationFields["system"]), "system");
  if (!system.content.empty()) messages.push_back(std::move(system));
  const JsonValue* list = fields.find(kConversationFields["messages"]);
  if (!list || !list->is_array() || list->as_array().empty()) {
    fields.fail(bad_value("messages: wanted an array of at least one message", "messages"));
    return messages;
  }
  for (size_t i = 0; i < list->as_array().size() && !fields.failed(); ++i) {
    const JsonValue& one = list->as_array()[i];
    const std::string place = fmt::format("messages[{}]", i);
    const std::string* role = text_member(one, "role");
    if (!role || (*role != "user" && *role != "assistant" && *role != "system")) {
      fields.fail(bad_value(fmt::format("'{}.role' is not \"user\" or \"assistant\"", place), "messages"));
      break;
    }
    ChatMessage message;
    message.role = *role;
    const JsonValue* content = one.find("content");
    if (content && content->is_array()) {
      read_blocks(fields, content->as_array(), place, messages, std::move(message));
    } else {
      message.content = read_text(fields, content, place + ".content");
      messages.push_back(std::move(message));
    }
  }
  return messages;
}

// Translates {"name","description","input_schema"}. Tools that the provider itself runs keep their type and
// are left to read_tools.
JsonValue translated_tool(const JsonValue& tool) {
  const std::string type = type_of(tool);
  if (!type.empty() && type != "custom") return tool;
  TranslatedBody function;
  function.set("name", tool.find("name"));
  function.set("description", tool.find("description"));
  function.set("parameters", tool.find("input_schema"));
  function.set("strict", tool.find("strict"));
  return json_object({{"type", JsonValue(std::string("function"))}, {"function", function.finish()}});
}

void translate_tools(Fields& fields, TranslatedBody& body) {
  const JsonValue* tools = fields.find(kConversationFields["tools"]);
  if (tools && tools->is_array()) {
    JsonValue::Array list;
    for (const JsonValue& tool : tools->as_array()) list.push_back(translated_tool(tool));
    body.set("tools", JsonValue(std::move(list)));
  } else {
    body.set("tools", tools);
  }
  const JsonObject* choice = fields.object(kConversationFields["tool_choice"]);
  if (!choice) return;
  const JsonValue* type = choice->find("type");
  const std::string word = type && type->is_string() ? type->as_string() : std::string();
  if (const JsonValue* single = choice->find("disable_parallel_tool_use"); single && !single->is_null()) {
    const auto flag = lenient_bool(*single);
    if (!flag) return fields.fail_type("tool_choice.disable_parallel_tool_use", *single, "true or false");
    body.set("parallel_tool_calls", JsonValue(!*flag));
  }
  if (word == "tool") {
    TranslatedBody function;
    function.set("name", choice->find("name"));
    body.set("tool_choice", json_object({{"function", function.finish()}}));
  } else if (word == "any" || word == "auto" || word == "none") {
    body.set("tool_choice", JsonValue(word == "any" ? std::string("required") : word));
  } else {
    fields.fail_type("tool_choice.type", type ? *type : JsonValue(),
                     "\"auto\", \"any\", \"tool\" or \"none\"");
  }
}

void translate_thinking(Fields& fields, TranslatedBody& body) {
  const JsonObject* thinking = fields.object(kConversationFields["thinking"]);
  if (!thinking) return;
  const JsonValue* type = thinking->find("type");
  const std::string word = type && type->is_string() ? type->as_string() : std::string();
  if (word != "enabled" && word != "disabled" && word != "adaptive") {
    return fields.fail_type("thinking.type", type ? *type : JsonValue(),
                            "\"enabled\", \"adaptive\" or \"disabled\"");
  }
  body.set("enable_think", JsonValue(word != "disabled"));
}

JsonValue translated(Fields& fields, const JsonValue& body) {
  TranslatedBody own;
  own.take_all_but(body, {"messages", "system", "tools", "tool_choice", "thinking", "stop_sequences",
                          "metadata", "service_tier", "stop", "stop_tokens", "cache_control"});
  own.rename(body, kMessagesFields["stop_sequences"].name, "stop");
  translate_tools(fields, own);
  translate_thinking(fields, own);
  return own.finish();
}

// What both routes read: the prompt and what goes with it.
struct MessageRequest {
  JsonValue body;
  ServedModelPtr model;
  ToolUse tools;
  std::optional<ChatPrompt> prompt;
};

// Faults stay in `fields`, which must have been made over request.body.
void read_prompt(Fields& fields, const Call& call, const std::vector<ChatMessage>& messages,
                 MessageRequest& request) {
  request.model = pick_model(call, fields);
  request.tools = read_tools(fields, ToolForm::nested);
  if (fields.failed()) return;
  request.prompt = render_messages(fields, *request.model, kV1Chat, messages, {request.tools.descriptions});
}

}  // namespace

void create_message(std::shared_ptr<Call> call) {
  Fields sent(call->body());
  const std::vector<ChatMessage> messages = read_conversation(sent);
  MessageRequest request{.body = translated(sent, call->body()), .model = {}, .tools = {}, .prompt = {}};
  if (!sent.find(kRowFields["max_tokens"])) sent.fail(bad_value("max_tokens: Field required", "max_tokens"));
  MessageFacts facts;
  facts.stops = sent.texts(kMessagesFields["stop_sequences"]);
  if (sent.failed()) return call->fail(sent.fault());
  Fields fields(request.body);
  read_prompt(fields, *call, messages, request);
  if (fields.failed()) return call->fail(fields.fault());

  const ServedModelPtr& model = request.model;
  const ThinkMode think = request.prompt->think;
  const ServerOptions& options = call->service().options;
  Submission submission;
  submission.generation =
      read_generation(fields, chat_defaults(*model, think, options), *model, options.limits);
  add_chat_stops(*model, submission.generation.stop);
  add_calls(fields, submission.generation.answer, request.tools);
  submission.think = think;
  submission.reads_tools = true;
  facts.model = model_name(fields, model->id);
  if (fields.failed()) return call->fail(fields.fault());
  if (request.prompt->force_reasoning) force_reasoning(submission.generation, *model->tokenizer);

  submission.prompts.push_back(chat_tokens(*model, request.prompt->text));
  facts.id = new_request_id("msg_");
  facts.prompt_tokens = static_cast<int64_t>(submission.prompts.front().size());
  facts.calls = expected_calls(request.tools, model->prompt_template->calls);
  submission.model = model;
  submission.model_name = facts.model;
  submission.endpoint = "messages";
  submission.request_id = facts.id;
  submission.split = reasoning_mode(think, ReasoningFormat::split, *model->prompt_template);
  auto writer = std::make_unique<MessagesWriter>(std::move(facts));
  submit(std::move(call), std::move(submission), std::move(writer));
}

void count_message_tokens(std::shared_ptr<Call> call) {
  Fields sent(call->body());
  const std::vector<ChatMessage> messages = read_conversation(sent);
  MessageRequest request{.body = translated(sent, call->body()), .model = {}, .tools = {}, .prompt = {}};
  if (sent.failed()) return call->fail(sent.fault());
  Fields fields(request.body);
  read_prompt(fields, *call, messages, request);
  if (fields.failed()) return call->fail(fields.fault());
  JsonWriter json;
  json.begin_object().member("input_tokens", chat_tokens(*request.model, request.prompt->text).size());
  call->respond_json(json.end_object().take());
}

}  // namespace fulmar
