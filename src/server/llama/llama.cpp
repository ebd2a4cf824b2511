// Translates llama.cpp's fields to the server's own.
#include "server/llama/llama.h"

#include <fmt/format.h>

#include "net/json.h"
#include "net/json_writer.h"
#include "server/generate/chat_intake.h"
#include "server/generate/intake.h"
#include "server/generate/translated_body.h"
#include "server/llama/llama_writer.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

// Translates a body of llama.cpp. n_predict replaces max_tokens; a negative one means no limit.
JsonValue translated(Fields& fields, const JsonValue& body) {
  TranslatedBody own;
  own.take_all_but(body, {"n_predict", "n_probs", "max_tokens"});
  const std::optional<int64_t> most = fields.integer(kPromptFields["n_predict"]);
  if (most && *most >= 0) own.set("max_tokens", JsonValue(*most));
  if (!most) own.set("max_tokens", fields.find(kRowFields["max_tokens"]));
  return own.finish();
}

// Reads one prompt: text, token ids, or a list that mixes both.
std::vector<int32_t> read_one(Fields& fields, const JsonValue& value, const ServedModel& model) {
  std::vector<int32_t> ids;
  const auto add = [&](const JsonValue& part) {
    const std::optional<int64_t> id = part.is_number() ? lenient_int(part) : std::nullopt;
    if (part.is_string()) {
      model.tokenizer->encode(part.as_string(), ids);
    } else if (id && *id >= 0 && *id < model.vocabulary) {
      ids.push_back(static_cast<int32_t>(*id));
    } else {
      fields.fail_type("prompt", part, fmt::format("text and ids of 0 to {} in it", model.vocabulary - 1));
    }
  };
  if (!value.is_array()) {
    add(value);
  } else {
    for (const JsonValue& part : value.as_array()) {
      add(part);
      if (fields.failed()) break;
    }
  }
  if (ids.empty() && !fields.failed()) fields.fail(bad_value("'prompt' is empty", "prompt", "missing_input"));
  return ids;
}

// Tells whether a value is a list of prompts: a list without numbers at its top.
bool is_list_of_prompts(const JsonValue& value) {
  if (!value.is_array() || value.as_array().empty()) return false;
  for (const JsonValue& part : value.as_array()) {
    if (part.is_number()) return false;
  }
  return true;
}

std::vector<std::vector<int32_t>> read_prompts(Fields& fields, const ServedModel& model, bool& several) {
  std::vector<std::vector<int32_t>> prompts;
  const JsonValue* value = fields.find(kPromptFields["prompt"]);
  if (!holds_something(value)) {
    fields.fail(bad_value("'prompt' is required", "prompt", "missing_input"));
    return prompts;
  }
  several = is_list_of_prompts(*value);
  if (!several) {
    prompts.push_back(read_one(fields, *value, model));
    return prompts;
  }
  for (const JsonValue& one : value->as_array()) {
    prompts.push_back(read_one(fields, one, model));
    if (fields.failed()) break;
  }
  return prompts;
}

struct LlamaPrompts {
  std::vector<std::vector<int32_t>> ids;
  GenerationDefaults defaults;
  std::string_view endpoint;
};

void submit_llama(std::shared_ptr<Call> call, Fields& fields, const ServedModelPtr& model, LlamaFacts facts,
                  LlamaPrompts prompts) {
  Submission submission;
  submission.generation = read_generation(fields, prompts.defaults, *model, call->service().options.limits);
  facts.model = model_name(fields, model->id);
  if (fields.failed()) return call->fail(fields.fault());
  submission.prompts = std::move(prompts.ids);
  submission.model = model;
  submission.model_name = facts.model;
  submission.endpoint = prompts.endpoint;
  submission.request_id = new_request_id("cmpl-");
  auto writer = std::make_unique<LlamaWriter>(std::move(facts));
  submit(std::move(call), std::move(submission), std::move(writer));
}

// Reads further files of a project, which go before the prefix, each under its name.
std::string read_extra(Fields& fields) {
  std::string text;
  const JsonValue* list = fields.find(kInfillFields["input_extra"]);
  if (!list) return text;
  if (!list->is_array()) {
    fields.fail_type("input_extra", *list, "an array of {\"filename\",\"text\"}");
    return text;
  }
  for (const JsonValue& file : list->as_array()) {
    const JsonValue *name = file.find("filename"), *content = file.find("text");
    if (!content || !content->is_string()) {
      fields.fail_type("input_extra", file, "objects with a text in it");
      break;
    }
    if (name && name->is_string()) text += name->as_string() + "\n";
    text += content->as_string() + "\n";
  }
  return text;
}

}  // namespace

void llama_completion(std::shared_ptr<Call> call) {
  Fields sent(call->body());
  const JsonValue body = translated(sent, call->body());
  if (sent.failed()) return call->fail(sent.fault());
  Fields fields(body);
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  LlamaFacts facts;
  auto prompts = read_prompts(fields, *model, facts.several);
  if (fields.failed()) return call->fail(fields.fault());
  if (const JsonValue* prompt = fields.find(kPromptFields["prompt"]); prompt->is_string())
    facts.prompt = prompt->as_string();
  submit_llama(std::move(call), fields, model, std::move(facts),
               {std::move(prompts), kCompletionDefaults, "llama.completion"});
}

void llama_infill(std::shared_ptr<Call> call) {
  Fields sent(call->body());
  const JsonValue body = translated(sent, call->body());
  const std::string prefix = sent.text(kInfillFields["input_prefix"]).value_or(std::string());
  const std::string suffix = sent.text(kInfillFields["input_suffix"]).value_or(std::string());
  const std::string begun = sent.text(kInfillFields["prompt"]).value_or(std::string());
  const std::string extra = read_extra(sent);
  if (!sent.find(kInfillFields["input_prefix"]) || !sent.find(kInfillFields["input_suffix"])) {
    sent.fail(bad_value("'input_prefix' and 'input_suffix' are required", "input_prefix", "missing_input"));
  }
  if (sent.failed()) return call->fail(sent.fault());
  Fields fields(body);
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  LlamaFacts facts{.model = {}, .prompt = render_infill(extra + prefix + begun, suffix)};
  GenerationDefaults defaults = kCompletionDefaults;
  defaults.stops = DefaultStops::infill;
  std::vector<std::vector<int32_t>> prompts{model->tokenizer->encode(facts.prompt)};
  submit_llama(std::move(call), fields, model, std::move(facts),
               {std::move(prompts), defaults, "llama.infill"});
}

void apply_template(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  const auto chat = read_chat(fields, *model, kV1Chat);
  if (!chat) return call->fail(fields.fault());
  JsonWriter json;
  json.begin_object().member("prompt", chat->text).member("template", model->prompt_template->name);
  json.member("tokens", chat_tokens(*model, chat->text).size()).member("pad_zero", begins_with_zero(*model));
  json.key("stop").begin_array();
  for (const std::string_view stop : model->prompt_template->chat_stops) json.value(stop);
  call->respond_json(json.end_array().end_object().take());
}

}  // namespace fulmar
