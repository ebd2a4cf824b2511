// Reads the fields of a response and links it to sessions of its own.
#include "server/responses/response_intake.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "server/generate/chat_intake.h"
#include "server/generate/session_ids.h"
#include "server/generate/writer_parts.h"
#include "server/responses/family.h"
#include "server/responses/response_items.h"

namespace fulmar {
namespace {

constexpr ChatRoute kResponses{ThinkMode::fast, CleanUp::collapse};

constexpr std::string_view kResponsePrefix = "resp_";
constexpr size_t kRandomDigits = 16, kTagDigits = 8;

// Returns the last digits of an id, which depend on its owner. `head`: the id before them.
std::string owner_tag(std::string_view owner, std::string_view head) {
  return sha256_hex(fmt::format("{} {}", head, owner)).substr(0, kTagDigits);
}

std::string item_text(Fields& fields, const JsonValue* content, const std::string& place) {
  if (content && content->is_string()) return content->as_string();
  if (!content || !content->is_array()) {
    fields.fail(bad_value(fmt::format("'{}' holds {}; wanted a string or an array of text parts", place,
                                      content ? describe(*content) : "absent"),
                          "input"));
    return {};
  }
  std::string text;
  for (const JsonValue& part : content->as_array()) {
    const JsonValue* words = part.find("text");
    if (!words || !words->is_string()) {
      fields.fail(bad_value(
          fmt::format("'{}' holds {}; only text parts are supported", place, describe(part)), "input"));
      return {};
    }
    text += words->as_string();
  }
  return text;
}

std::string word_of(const JsonValue& item, std::string_view name) {
  const JsonValue* member = item.find(name);
  return member && member->is_string() ? member->as_string() : std::string();
}

// Reads a call of a client's own tool, whose input is text instead of JSON.
ChatMessage custom_call(const JsonValue& item) {
  JsonWriter json;
  json.begin_object().member("input", word_of(item, "input"));
  ChatMessage message;
  message.role = "assistant";
  message.tool_calls.push_back({word_of(item, "call_id"), word_of(item, "name"), json.end_object().take()});
  return message;
}

// Reads one item of `input`: a message, a call that the model made, or a function's output.
ChatMessage read_item(Fields& fields, const JsonValue& item, const std::string& place) {
  ChatMessage message;
  const std::string type = word_of(item, "type");
  if (type == "function_call") {
    message.role = "assistant";
    message.tool_calls.push_back(
        {word_of(item, "call_id"), word_of(item, "name"), word_of(item, "arguments")});
    const ToolCall& call = message.tool_calls.back();
    if (call.id.empty() || call.name.empty()) {
      fields.fail(bad_value(fmt::format("'{}' is a call without call_id or name", place), "input"));
    }
  } else if (type == "custom_tool_call") {
    message = custom_call(item);
  } else if (type == "function_call_output" || type == "custom_tool_call_output") {
    message.role = "tool";
    message.tool_call_id = word_of(item, "call_id");
    const JsonValue* output = item.find("output");
    message.content = item_text(fields, output, place);
  } else {
    message.role = word_of(item, "role");
    const bool plain = item.is_object() && (!item.find("type") || type == "message");
    if (plain && !message.role.empty()) {
      message.content = item_text(fields, item.find("content"), place);
    } else {
      fields.fail(bad_value(fmt::format("'{}' is no message with a role", place), "input"));
    }
  }
  return message;
}

// Finds the item of a stored response that a reference names: an item's id contains the digits of its
// response. Nothing when it is not stored, an Error when the store fails.
Result<std::optional<JsonValue>> referenced_item(Service& service, const Owner& owner,
                                                 const std::string& id) {
  constexpr size_t kDigits = 24;
  const std::optional<JsonValue> none;
  const size_t mark = id.find('_');
  if (mark == std::string::npos || id.size() < mark + 1 + kDigits) return none;
  const std::string response_id = "resp_" + id.substr(mark + 1, kDigits);
  if (!sees_response(owner, response_id)) return none;
  FULMAR_ASSIGN(const auto stored, service.families.responses->store.find(response_id));
  const auto response = stored ? parse_json(stored->json) : Result<JsonValue>(Error{});
  const JsonValue* output = response ? response->find("output") : nullptr;
  if (!output || !output->is_array()) return none;
  for (const JsonValue& item : output->as_array()) {
    if (word_of(item, "id") == id) return std::optional(item);
  }
  return none;
}

// Reads `input`: a string, or a list of items.
std::vector<ChatMessage> read_input(Fields& fields, Service& service, const Owner& owner) {
  std::vector<ChatMessage> messages;
  const JsonValue* input = fields.find(kResponseFields["input"]);
  if (!holds_something(input)) {
    fields.fail(bad_value("'input' is required", "input", "missing_input"));
    return messages;
  }
  if (input->is_string()) {
    ChatMessage& message = messages.emplace_back();
    message.role = "user";
    message.content = input->as_string();
    return messages;
  }
  if (!input->is_array()) {
    fields.fail_type("input", *input, "a string or an array of messages");
    return messages;
  }
  for (const JsonValue& item : input->as_array()) {
    const std::string place = fmt::format("input[{}]", messages.size());
    const bool refers = word_of(item, "type") == "item_reference";
    const auto found = refers ? referenced_item(service, owner, word_of(item, "id"))
                              : Result<std::optional<JsonValue>>(std::optional<JsonValue>());
    if (!found.ok()) {
      fields.fail(store_failed("responses"));
      break;
    }
    const std::optional<JsonValue>& referenced = *found;
    if (refers && !referenced) {
      fields.fail(bad_value(
          fmt::format("'{}' refers to the item '{}', which is not stored", place, word_of(item, "id")),
          "input"));
      break;
    }
    const JsonValue& meant = referenced ? *referenced : item;
    if (word_of(meant, "type") == "reasoning") continue;  // clients send back what they got; it is not fed
    messages.push_back(read_item(fields, meant, place));
    if (fields.failed()) break;
  }
  return messages;
}

// Reads `include`. The encrypted reasoning is accepted and stays empty; anything else is refused.
void read_include(Fields& fields) {
  for (const std::string& part : fields.texts(kResponseFields["include"])) {
    if (part == "reasoning.encrypted_content") continue;
    fields.fail(bad_value(fmt::format("'include' holds {}, which this server does not support; wanted "
                                      "\"reasoning.encrypted_content\"",
                                      describe(JsonValue(part))),
                          "include", "unsupported_parameter"));
  }
}

StateLink link_turn(const std::string& previous, const std::string& id, bool store, const std::string& prompt,
                    const ServedModel& model) {
  StateLink link;
  if (!previous.empty()) {
    link = link_session({.id = response_session(previous)}, prompt, model);
    link.must_exist = true;
  }
  link.write_session = store ? response_session(id) : std::string();
  link.server_named = true;
  return link;
}

// Reads the input and puts the instructions before it.
std::vector<ChatMessage> read_turn(Fields& fields, Service& service, const Owner& owner,
                                   ResponseFacts& facts) {
  std::vector<ChatMessage> messages = read_input(fields, service, owner);
  facts.instructions = fields.text(kResponseFields["instructions"]).value_or("");
  if (!facts.instructions.empty()) {
    ChatMessage instructions;
    instructions.role = "system";
    instructions.content = facts.instructions;
    messages.insert(messages.begin(), std::move(instructions));
  }
  return messages;
}

ApiError stateless(const std::string& id, std::string_view why) {
  return {409,
          fmt::format("Response '{}' has no state to go on from: {}", id, why),
          "previous_response_id",
          "response_without_state",
          {}};
}

std::string why_stateless(const std::string& cut) {
  if (cut == cut_text(FinishReason::paused)) {
    return "its request was paused before its end; resume that while it is there, or send the whole "
           "conversation instead";
  }
  return fmt::format("it ended as '{}'; send the whole conversation instead", cut);
}

// Finds the stored response that this one continues. Faults stay in `fields`.
std::optional<StoredResponse> read_previous(Fields& fields, Service& service, const Owner& owner,
                                            const ServedModel& model) {
  const std::string id = fields.text(kResponseFields["previous_response_id"]).value_or("");
  if (id.empty() || fields.failed()) return std::nullopt;
  if (!sees_response(owner, id)) {
    fields.fail(not_stored(id, "previous_response_id"));
    return std::nullopt;
  }
  auto found = service.families.responses->store.find(id);
  if (!found.ok()) {
    fields.fail(store_failed("responses"));
    return std::nullopt;
  }
  std::optional<StoredResponse>& previous = *found;
  if (!previous && service.families.responses->background.look(id)) {
    fields.fail(stateless(id, "it has not ended yet"));
  } else if (!previous) {
    fields.fail(not_stored(id, "previous_response_id"));
  } else if (!previous->cut.empty()) {
    fields.fail(stateless(id, why_stateless(previous->cut)));
  } else if (previous->model != model.id) {
    fields.fail(bad_value(fmt::format("'previous_response_id' is of the model '{}', this request of '{}'",
                                      previous->model, model.id),
                          "previous_response_id"));
  } else if (previous->adapter != identity_of(model)) {
    fields.fail({409,
                 fmt::format("Response '{}' was computed with {}; this request has {}", id,
                             adapter_words(previous->adapter), adapter_words(identity_of(model))),
                 "previous_response_id",
                 "response_of_another_adapter",
                 {}});
  }
  return std::move(previous);
}

// Reads the fields that the answer repeats as they were sent.
void read_echo(Fields& fields, ResponseFacts& facts) {
  const auto echo = [&](const Field& field, std::string& text) {
    if (const JsonValue* value = fields.find(field)) text = json_text(*value);
  };
  echo(kToolFields["tools"], facts.tools_sent);
  echo(kToolFields["tool_choice"], facts.tool_choice);
  if (read_metadata(fields)) echo(kAccountFields["metadata"], facts.metadata);
  fields.word(kAccountFields["service_tier"]);
  if (const JsonObject* reasoning = fields.object(kResponseFields["reasoning"])) {
    echo(kResponseFields["reasoning"], facts.reasoning);
    const JsonValue* summary = reasoning->find("summary");
    facts.summary = summary && summary->is_string() && summary->as_string() != "none";
  }
}

// Returns the functions to describe to the model: none when the previous state has been told of the same
// ones.
ToolTalk talk_of_tools(const ToolUse& tools, const std::optional<StoredResponse>& previous,
                       ResponseFacts& facts) {
  facts.tools = fmt::format("{}", fmt::join(tools.descriptions, ","));
  ToolTalk talk;
  if (!previous || previous->tools != facts.tools) talk.descriptions = tools.descriptions;
  if (previous) talk.calls_before = previous->calls;
  return talk;
}

}  // namespace

std::string new_response_id(const Owner& owner) {
  std::string id = new_request_id(kResponsePrefix).substr(0, kResponsePrefix.size() + kRandomDigits);
  return id + owner_tag(owner.name, id);
}

bool sees_response(const Owner& owner, std::string_view id) {
  if (owner.administers) return true;
  const size_t head = kResponsePrefix.size() + kRandomDigits;
  return owner.name != kNobody && id.size() == head + kTagDigits &&
         id.substr(head) == owner_tag(owner.name, id.substr(0, head));
}

ApiError not_stored(const std::string& id, std::string_view param) {
  return {404, fmt::format("Response '{}' not found", id), std::string(param), "response_not_found", {}};
}

PreparedResponse prepare_response(Service& service, Fields& fields, const ResponseOrigin& origin) {
  PreparedResponse made;
  ResponseFacts& facts = made.facts;
  const ServedModelPtr model =
      pick_model(service, origin.owner, fields,
                 {.state = origin.state, .adapter = origin.adapter ? &*origin.adapter : nullptr});
  if (fields.failed()) return made;
  const std::vector<ChatMessage> messages = read_turn(fields, service, origin.owner, facts);
  read_include(fields);
  read_echo(fields, facts);
  if (origin.other_site && fields.present(kResponseFields["previous_response_id"]))
    fields.fail(*origin.other_site);
  const auto previous = read_previous(fields, service, origin.owner, *model);
  facts.previous = previous ? previous->id : std::string();
  const ToolUse tools = read_tools(fields, ToolForm::flat);
  if (fields.failed()) return made;
  facts.calls = expected_calls(tools, model->prompt_template->calls);
  const auto prompt =
      render_messages(fields, *model, kResponses, messages, talk_of_tools(tools, previous, facts));
  if (!prompt) return made;

  const ServerLimits& limits = service.options.limits;
  Generation generation =
      read_generation(fields, chat_defaults(*model, prompt->think, service.options), *model, limits);
  if (const auto most = fields.integer(kResponseFields["max_output_tokens"])) {
    generation.max_tokens = std::min(*most, limits.max_tokens);
  }
  fields.object(kResponseFields["text"]);  // holds the format, which is read with all other constraints
  AnswerRules& rules = generation.answer;
  facts.format = rules.schema ? "json_schema" : rules.json_object ? "json_object" : "text";
  add_calls(fields, rules, tools);
  facts.store = fields.flag(kResponseFields["store"]);
  facts.background = fields.flag(kResponseFields["background"]);
  if (facts.background && (generation.stream || !facts.store)) {
    fields.fail(bad_value("'background' needs 'store' and cannot be combined with 'stream'", "background",
                          "unsupported_parameter"));
  }
  facts.model = model_name(fields, model->id);
  if (fields.failed()) return made;
  if (prompt->force_reasoning) force_reasoning(generation, *model->tokenizer);

  facts.id = origin.id;
  facts.owner = origin.owner.name;
  facts.created = origin.created;
  facts.model_id = model->id;
  facts.adapter = identity_of(*model);
  facts.input = input_items_json(facts.id, *fields.find(kResponseFields["input"]));
  facts.max_tokens = generation.max_tokens;
  facts.temperature = generation.sampling.temperature;
  facts.top_p = generation.sampling.top_p;
  Submission& submission = made.submission;
  submission.owner = origin.owner.name;
  submission.model = model;
  submission.model_name = facts.model;
  submission.endpoint = "responses";
  submission.request_id = facts.id;
  submission.generation = std::move(generation);
  submission.think = prompt->think;
  submission.reads_tools = true;
  submission.prompts.push_back(chat_tokens(*model, prompt->text));
  submission.state = link_turn(facts.previous, facts.id, facts.store, prompt->text, *model);
  submission.split = reasoning_mode(prompt->think, ReasoningFormat::split, *model->prompt_template);
  return made;
}

}  // namespace fulmar
