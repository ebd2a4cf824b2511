// Reads models and sessions and submits rows to the engine.
#include "server/generate/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/count.h"
#include "base/log.h"
#include "engine/ask_rules.h"
#include "engine/queue_room.h"
#include "net/conversation.h"
#include "net/json.h"
#include "server/core/warnings.h"
#include "server/generate/answer_rules.h"
#include "server/generate/constraint_fields.h"
#include "server/generate/named_model.h"
#include "server/generate/session_ids.h"

namespace fulmar {
namespace {

// Names that clients choose are bounded: status pages and events of streams repeat them.
constexpr size_t kLongestModelName = 256;
constexpr std::string_view kStateHeader = "X-RWKV-State-Id";
// Bounds the copies of stops and biases that many rows together hold.
constexpr int64_t kMaxRulesOverRows = 4'000'000;

// Reads what a request says in a field or a header; empty when in neither. Both must say the same.
std::string text_or_header(Fields& fields, TypedField<Takes::Type::text> one, std::string_view header_name,
                           std::string header) {
  const std::string_view name = one.field.name;
  const std::string field = fields.text(one).value_or(std::string());
  if (!field.empty() && !header.empty() && field != header) {
    fields.fail(
        bad_value(fmt::format("'{}' is '{}' but the header {} is '{}'", name, field, header_name, header),
                  std::string(name)));
  }
  return field.empty() ? header : field;
}

void check_length(Fields& fields, std::string_view name, std::string_view text, size_t most) {
  if (text.size() <= most) return;
  fields.fail(bad_value(fmt::format("'{}' holds {} bytes; at most {} are allowed", name, text.size(), most),
                        std::string(name)));
}

// Returns whether it is an id, and none at fault.
bool check_session_id(Fields& fields, std::string_view id) {
  if (id.empty()) return false;
  auto fault = session_id_fault(id);
  if (!fault) return true;
  fields.fail(std::move(*fault));
  return false;
}

// Returns a mixture with the weights of the request in place of its own.
ServedModelPtr reweighted(Fields& fields, ServedModelPtr model) {
  if (!model || model->mixture.empty()) return model;
  const auto weights = fields.numbers(kModelFields["mrss_gatingweight"]);
  if (!weights) return model;
  auto mixture = weighted(model->mixture, *weights);
  if (mixture) return with_mixture(model, std::move(*mixture));
  fields.fail(bad_value(mixture.error().text, "mrss_gatingweight"));
  return nullptr;
}

std::optional<ApiError> size_fault(const Submission& submission, const ServerLimits& limits) {
  const int64_t rows = (Count(submission.prompts.size()) * submission.rows_per_prompt).value();
  if (rows > limits.max_request_rows) {
    ApiError error = bad_value(fmt::format("bsz overflow, Max bsz={}", limits.max_request_rows));
    error.facts = {{"request_bsz", rows}, {"max_bsz", limits.max_request_rows}};
    return error;
  }
  Count tokens = 0;
  for (const auto& prompt : submission.prompts) {
    tokens += Count(prompt.size() + submission.generation.prediction.size()) * submission.rows_per_prompt;
  }
  if (tokens > limits.max_prompt_tokens) {
    return bad_value(fmt::format("the prompts hold {} tokens over all rows; at most {} are allowed",
                                 tokens.value(), limits.max_prompt_tokens));
  }
  const Generation& generation = submission.generation;
  const Count rules =
      generation.stop.texts.size() + generation.stop.ids.size() + generation.sampling.logit_bias.size();
  if (rules * rows > kMaxRulesOverRows) {
    return bad_value(fmt::format("{} stops and biases for each of {} rows; at most {} together are allowed",
                                 rules.value(), rows, kMaxRulesOverRows));
  }
  return std::nullopt;
}

// Returns the stop rules of an answer. A constrained one ends when it is complete or at the stops that the
// request names, but not at the default stops, which its text may contain. Within calls no stop applies.
StopRules stops_of(const Submission& submission, std::optional<int32_t> end) {
  const Generation& generation = submission.generation;
  const PromptTemplate& chosen = *submission.model->prompt_template;
  if (generation.answer.any_text()) return generation.stop;
  if (generation.answer.or_text) {
    StopRules stop = generation.stop;
    stop.until = before_calls(answer_start(submission.think, chosen), chosen.calls);
    return stop;
  }
  StopRules stop = generation.answer.calls.empty() ? generation.asked_stop : StopRules{};
  if (end) stop.ids.push_back(*end);
  std::sort(stop.ids.begin(), stop.ids.end());
  stop.ids.erase(std::unique(stop.ids.begin(), stop.ids.end()), stop.ids.end());
  return stop;
}

std::vector<Ask> make_asks(Submission& submission, const std::shared_ptr<Constraint>& constraint,
                           const AdapterUse& adapter) {
  const Generation& generation = submission.generation;
  std::optional<int32_t> end;  // what may end a constrained row
  for (const int32_t id : generation.stop.ids) {
    if (id == submission.model->end_token) end = id;
  }
  const StopRules stop = constraint ? stops_of(submission, end) : generation.stop;
  std::vector<Ask> rows;
  rows.reserve(submission.prompts.size() * static_cast<size_t>(submission.rows_per_prompt));
  for (std::vector<int32_t>& prompt : submission.prompts) {
    if (generation.pad_zero) prompt.insert(prompt.begin(), 0);
    for (int32_t j = 0; j < submission.rows_per_prompt; ++j) {
      Ask& ask = rows.emplace_back();
      ask.request_id = submission.request_id;
      ask.index = static_cast<int32_t>(rows.size() - 1);
      ask.prompt = j + 1 == submission.rows_per_prompt ? std::move(prompt) : prompt;
      ask.sampling = generation.sampling;
      ask.sampling.seed += static_cast<uint64_t>(ask.index);
      ask.max_tokens = generation.max_tokens;
      ask.stop = stop;
      ask.banned_at = generation.banned_at;
      if (constraint) ask.mask = make_mask(constraint, *submission.model->tokenizer, end);
      ask.use_prefix_cache = generation.use_prefix_cache;
      ask.speculate = generation.speculate;
      ask.prediction = generation.prediction;
      ask.score_prompt = submission.score_prompt;
      ask.state = submission.state;
      ask.adapter = adapter;
      ask.state.mixture = submission.model->mixture;
      if (ask.state.mixture.empty()) ask.state.initial_state = submission.model->initial_state;
    }
  }
  return rows;
}

// Tells whether an answer may go unconstrained when its calls cannot be compiled: calls are optional and none
// is strict.
bool may_be_free(const AnswerRules& rules) {
  const auto strict = [](const CallableTool& tool) { return tool.strict; };
  return rules.or_text && std::none_of(rules.calls.begin(), rules.calls.end(), strict);
}

// Compiles the answer's constraint, or takes it from the owner's cache. Logs what was loosened.
std::optional<ApiError> constrain(Service& service, const std::string& owner, const Submission& submission,
                                  CompiledRules& compiled) {
  const AnswerRules& rules = submission.generation.answer;
  if (rules.any_text()) return std::nullopt;
  const AnswerStart start = answer_start(submission.think, *submission.model->prompt_template);
  const std::string keeper = service.options.share_prefixes ? std::string() : owner;
  auto found = service.families.constraints->find(keeper, submission.model, start, rules);
  if (found) {
    compiled = std::move(*found);
  } else if (may_be_free(rules) && found.error().kind != ErrorKind::unavailable) {
    compiled.warnings = {found.error().text + "; calls of functions may be anything"};
  } else {
    return bad_value(found.error().text, rules.param, "unsupported_parameter");
  }
  for (const std::string& text : compiled.warnings) {
    spdlog::warn("constraint loosened request={} what=\"{}\"", submission.request_id, text);
  }
  return std::nullopt;
}

// Warns of fields that the server accepts but that have no effect on this answer.
void add_idle(const Submission& submission, std::vector<std::string>& warnings) {
  const StopRules& asked = submission.generation.asked_stop;
  const AnswerRules& rules = submission.generation.answer;
  const bool only_calls = !rules.calls.empty() && !rules.or_text;
  if (only_calls && !(asked.texts.empty() && asked.ids.empty())) {
    warnings.emplace_back("the stops of the request end no answer that has to be calls or may be JSON");
  }
}

ApiError submit_fault(const Error& error) {
  ApiError fault = api_error(error);
  if (error.kind == ErrorKind::unavailable) {
    if (!error.text.starts_with(kQueueFull)) fault.text = kQueueFull;
    fault.code = "queue_full";
  }
  return fault;
}

ReplyOptions reply_options(const Call& call, const Submission& submission,
                           std::vector<std::string> warnings) {
  ReplyOptions options;
  options.request_id = submission.request_id;
  options.stream = submission.generation.stream;
  options.chunk_size = submission.generation.chunk_size;
  options.rows_per_prompt = submission.rows_per_prompt;
  options.rows = static_cast<int32_t>(submission.prompts.size()) * submission.rows_per_prompt;
  options.padded = submission.generation.pad_zero;
  options.refuse_if_never_run = submission.refuse_if_never_run;
  options.split = split_of(submission);
  options.warnings = std::move(warnings);
  const std::vector<std::string>& unkept = call.unkept().warnings;
  options.warnings.insert(options.warnings.end(), unkept.begin(), unkept.end());
  add_idle(submission, options.warnings);
  if (!submission.state.read_session.empty() && !submission.state.server_named) {
    for (std::string& text : warnings_of_sessions(call.service().options)) {
      options.warnings.push_back(std::move(text));
    }
  }
  return options;
}

// A submission in which no fault was found.
struct CheckedSubmission {
  Submission submission;
  std::shared_ptr<Constraint> constraint;  // null: any text
  ReplyOptions options;
  std::unique_ptr<Writer> writer;
};

// Submits the rows to the engine, which answers the call.
void hand_over(const std::shared_ptr<Call>& call, CheckedSubmission checked, const AdapterUse& adapter) {
  Submission& submission = checked.submission;
  Engine& engine = *submission.model->engine;
  const bool resumable = checked.options.stream && checked.options.rows == 1;
  const auto reply =
      std::make_shared<Reply>(call, std::move(checked.options), std::move(checked.writer), submission.model);
  Request request{.owner = call->owner().name,
                  .rows = make_asks(submission, checked.constraint, adapter),
                  .listener = reply,
                  .endpoint = submission.endpoint,
                  .model = submission.model_name,
                  .resumable = resumable,
                  .held = std::move(submission.held)};
  if (const Status accepted = engine.submit(std::move(request)); !accepted) {
    return call->fail(submit_fault(accepted.error()));
  }
  reply->watch_client();
}

}  // namespace

ApiError no_model_loaded() { return {503, "No model loaded", {}, "model_not_loaded", {}}; }

ServedModelPtr pick_model(const Call& call, Fields& fields) {
  return pick_model(call.service(), call.owner(), fields,
                    {.state = call.request().headers.get(kStateHeader)});
}

ServedModelPtr pick_model(const Service& service, const Owner& owner, Fields& fields,
                          const ModelHints& hints) {
  const std::string name = model_name(fields, {});
  AdapterWish wish = hints.adapter ? *hints.adapter : read_adapter_wish(fields);
  const std::string state =
      text_or_header(fields, kModelFields["state_id"], kStateHeader, std::string(hints.state));
  check_length(fields, "state_id", state, kLongestModelName);
  if (fields.failed()) return nullptr;
  ServedModelPtr model = named_model(service, owner, name, service.options.strict_model,
                                     hints.adapter ? nullptr : &wish.by_model_name);
  if (model && !state.empty()) {
    model = service.models.with_state(owner, model, state);
    if (!model) {
      fields.fail({404, fmt::format("The state '{}' does not exist", state), "state_id", "not_found", {}});
      return nullptr;
    }
  }
  if (model) model = reweighted(fields, std::move(model));
  if (model) return adapted(service, owner, fields, model, wish);
  if (fields.failed()) return nullptr;
  if (service.models.empty()) {
    fields.fail(no_model_loaded());
  } else {
    fields.fail({404, fmt::format("The model '{}' does not exist", name), "model", "model_not_found", {}});
  }
  return nullptr;
}

std::optional<ReasoningMode> split_of(const Submission& submission) {
  std::optional<ReasoningMode> split = submission.split;
  if (split) split->as_is = submission.generation.answer.is_plain();
  return split;
}

std::string model_name(Fields& fields, std::string_view otherwise) {
  std::string name = fields.text(kModelFields["model"]).value_or(std::string());
  check_length(fields, "model", name, kLongestModelName);
  return name.empty() ? std::string(otherwise) : name;
}

std::optional<ApiError> make_request(Service& service, Submission submission, Request& request,
                                     std::vector<std::string>& warnings) {
  if (auto fault = size_fault(submission, service.options.limits)) return fault;
  CompiledRules rules;
  if (auto fault = constrain(service, submission.owner, submission, rules)) return fault;
  AdapterUse adapter;
  if (auto fault = lease_adapter(service, submission.model, adapter)) return fault;
  warnings.insert(warnings.end(), rules.warnings.begin(), rules.warnings.end());
  add_idle(submission, warnings);
  request.owner = submission.owner;
  request.rows = make_asks(submission, rules.constraint, adapter);
  request.endpoint = submission.endpoint;
  request.model = submission.model_name;
  return std::nullopt;
}

std::optional<ApiError> submit_request(const Service& service, Engine& engine, Request request) {
  if (service.draining) return ApiError{503, "Server is shutting down", {}, "shutting_down", {}};
  const Status accepted = engine.submit(std::move(request));
  if (!accepted) return submit_fault(accepted.error());
  return std::nullopt;
}

void submit(std::shared_ptr<Call> call, Submission submission, std::unique_ptr<Writer> writer) {
  call->set_family(writer->family());
  Service& service = call->service();
  if (service.ending) return call->fail({503, "Server is shutting down", {}, "shutting_down", {}});
  if (const auto fault = size_fault(submission, service.options.limits)) return call->fail(*fault);
  if (!submission.reads_tools) {
    if (const auto fault = refuse_tools(call->body())) return call->fail(*fault);
  }
  if (submission.state.read_session.empty() || submission.state.server_named) {
    Fields fields(call->body());
    refuse_session(fields, call->request().headers);
    if (fields.failed()) return call->fail(fields.fault());
  }
  if (call->unkept().fault) return call->fail(*call->unkept().fault);
  CompiledRules rules;
  if (const auto fault = constrain(service, call->owner().name, submission, rules)) return call->fail(*fault);
  ReplyOptions options = reply_options(*call, submission, std::move(rules.warnings));
  int64_t prompt_tokens = 0;
  for (const auto& prompt : submission.prompts) prompt_tokens += static_cast<int64_t>(prompt.size());
  if (const auto refused = call->take_rows(options.rows, prompt_tokens)) return call->fail(*refused);
  const ServedModelPtr model = submission.model;
  // Shared, because std::function has to be copyable.
  const auto checked = std::make_shared<CheckedSubmission>(CheckedSubmission{
      std::move(submission), std::move(rules.constraint), std::move(options), std::move(writer)});
  with_adapter_ready(call, model, [call, checked](const AdapterUse& adapter) {
    hand_over(call, std::move(*checked), adapter);
  });
}

const JsonObject* read_metadata(Fields& fields) {
  constexpr size_t kMostEntries = 16, kLongestName = 64, kLongestValue = 512;
  const JsonObject* metadata = fields.object(kAccountFields["metadata"]);
  if (!metadata) return nullptr;
  if (metadata->members().size() > kMostEntries) {
    fields.fail(bad_value(fmt::format("'metadata' holds {} entries; at most {} are allowed",
                                      metadata->members().size(), kMostEntries),
                          "metadata"));
  }
  for (const auto& [name, value] : metadata->members()) {
    if (name.size() > kLongestName) {
      fields.fail(bad_value(fmt::format("'metadata' holds a name of {} bytes; at most {} are allowed",
                                        name.size(), kLongestName),
                            "metadata"));
    } else if (!value.is_string()) {
      fields.fail_type("metadata." + name, value, "a string");
    } else {
      check_length(fields, "metadata." + name, value.as_string(), kLongestValue);
    }
  }
  return fields.failed() ? nullptr : metadata;
}

std::string session_id_field(Fields& fields, TypedField<Takes::Type::text> field) {
  std::string id = fields.text(field).value_or(std::string());
  return check_session_id(fields, id) ? id : std::string();
}

bool is_session_id(std::string_view id) { return !session_id_fault(id); }

std::optional<SessionUse> read_session(const Call& call, Fields& fields) {
  SessionUse session;
  session.id = text_or_header(fields, kSessionFields["session_id"], kSessionHeader,
                              std::string(call.request().headers.get(kSessionHeader)));
  if (!check_session_id(fields, session.id)) session.id.clear();
  session.raw_append = fields.flag(kSessionFields["raw_append"]);
  session.keep_on_disconnect = fields.word(kSessionFields["on_disconnect"]) == "keep";
  if (session.id.empty()) return std::nullopt;
  if (auto fault = call.other_site_fault()) fields.fail(std::move(*fault));
  return session;
}

StateLink link_session(const SessionUse& session, const std::string& prompt, const ServedModel& model) {
  const std::string turn_end = model.prompt_template->turn_end();
  const bool as_it_is = session.raw_append || prompt.starts_with(turn_end);
  StateLink link;
  link.read_session = session.id;
  link.write_session = session.write_to.empty() ? session.id : session.write_to;
  link.must_exist = session.must_exist;
  link.continuing = model.tokenizer->encode(as_it_is ? prompt : turn_end + prompt);
  link.keep_on_cancel = session.keep_on_disconnect;
  return link;
}

std::string new_request_id(std::string_view prefix) {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

}  // namespace fulmar
