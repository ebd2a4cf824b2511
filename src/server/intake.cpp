// Generation parameters and the hand-over to the engine.
#include "server/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "net/json.h"

namespace fulmar {
namespace {

constexpr int64_t kMaxStopId = 65535;
constexpr size_t kMaxStopTexts = 16;  // of the field `stop`; `stop_tokens` may hold any number
// Bounds the copies of stops and biases that many rows together hold.
constexpr int64_t kMaxRulesOverRows = 4'000'000;
constexpr double kMaxPenalty = 1e6;

std::optional<double> either_number(Fields& fields, std::string_view first, std::string_view second,
                                    double least, double most) {
  return fields.find(first) ? fields.number(first, least, most) : fields.number(second, least, most);
}

void read_sampling(Fields& fields, const GenerationDefaults& defaults, const ServedModel& model,
                   SamplingParams& sampling) {
  const double temperature = fields.number("temperature", 0, 1000)
                                 .value_or(model.default_temperature.value_or(defaults.temperature));
  sampling.temperature = temperature < 0.001 ? 0.0f : static_cast<float>(temperature);
  const int64_t top_k = fields.integer("top_k").value_or(defaults.top_k);
  sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(top_k, 0, std::numeric_limits<int32_t>::max()));
  const double top_p =
      fields.number("top_p", std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max())
          .value_or(model.default_top_p.value_or(defaults.top_p));
  sampling.top_p = top_p < 0 || top_p > 1 ? 1.0f : static_cast<float>(top_p);
  sampling.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(0));
  sampling.presence = static_cast<float>(
      either_number(fields, "alpha_presence", "presence_penalty", -kMaxPenalty, kMaxPenalty)
          .value_or(defaults.presence));
  sampling.frequency = static_cast<float>(
      either_number(fields, "alpha_frequency", "frequency_penalty", -kMaxPenalty, kMaxPenalty)
          .value_or(defaults.frequency));
  sampling.decay = static_cast<float>(
      either_number(fields, "alpha_decay", "penalty_decay", 0, 1).value_or(defaults.decay));
  sampling.temperature_last = fields.boolean("temperature_last").value_or(false);
  if (const auto seed = fields.unsigned_integer("seed")) {
    sampling.seed = *seed;
  } else {
    std::random_device device;
    sampling.seed = (uint64_t{device()} << 32) | device();
  }
}

void read_logit_bias(Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  const JsonObject* biases = fields.object("logit_bias");
  if (!biases) return;
  for (const auto& [key, value] : biases->members()) {
    int64_t id = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (fault != std::errc() || end != key.data() + key.size() || id < 0 || id >= model.vocabulary) {
      return fields.fail(bad_value(fmt::format("'logit_bias' names token {}; wanted an id of 0 to {}",
                                               describe(JsonValue(key)), model.vocabulary - 1),
                                   "logit_bias"));
    }
    const std::optional<double> bias = lenient_number(value);
    if (!bias || *bias < -100 || *bias > 100) {
      return fields.fail_type("logit_bias", value, fmt::format("a number from -100 to 100 for token {}", id));
    }
    sampling.logit_bias.emplace_back(static_cast<int32_t>(id), static_cast<float>(*bias));
  }
  // Two spellings of one id ("1", "01") count once.
  const auto same_id = [](const auto& a, const auto& b) { return a.first == b.first; };
  std::stable_sort(sampling.logit_bias.begin(), sampling.logit_bias.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  sampling.logit_bias.erase(std::unique(sampling.logit_bias.begin(), sampling.logit_bias.end(), same_id),
                            sampling.logit_bias.end());
}

void add_stop_id(Fields& fields, const JsonValue& value, const ServedModel& model, StopRules& stop) {
  const std::optional<int64_t> id = lenient_int(value);
  if (!id || *id < 0 || *id > kMaxStopId) {
    return fields.fail_type("stop_tokens", value,
                            fmt::format("strings and ids of 0 to {} in it", kMaxStopId));
  }
  // Ids beyond this vocabulary can never be drawn; without an end token, id 0 is ordinary data.
  if (*id >= model.vocabulary || (*id == 0 && !model.end_token)) return;
  stop.ids.push_back(static_cast<int32_t>(*id));
}

void add_stop_text(const std::string& text, StopRules& stop) {
  if (!text.empty()) stop.texts.push_back(text);
}

void read_stop_tokens(Fields& fields, const JsonValue& value, const ServedModel& model, StopRules& stop) {
  const auto add = [&](const JsonValue& element) {
    if (element.is_string()) {
      add_stop_text(element.as_string(), stop);
    } else {
      add_stop_id(fields, element, model, stop);
    }
  };
  if (!value.is_array()) return add(value);
  for (const JsonValue& element : value.as_array()) {
    add(element);
    if (fields.failed()) return;
  }
}

void read_stop(Fields& fields, StopRules& stop) {
  const auto texts = fields.texts("stop");
  if (!texts) return;
  if (texts->size() > kMaxStopTexts) {
    return fields.fail(bad_value(
        fmt::format("'stop' holds {} texts; at most {} are allowed", texts->size(), kMaxStopTexts), "stop"));
  }
  for (const std::string& text : *texts) add_stop_text(text, stop);
}

StopRules default_stops(DefaultStops kind, const ServedModel& model) {
  StopRules stop;
  switch (kind) {
    case DefaultStops::end_only:
      break;
    case DefaultStops::turn:
      stop.ids = model.stops.turn_ids;
      stop.texts = model.stops.turn_texts;
      break;
    case DefaultStops::user_text:
      stop.texts = {"\n\nUser:", "\nUser:"};
      break;
    case DefaultStops::infill:
      stop.ids = model.stops.infill_ids;
      stop.texts = model.stops.infill_texts;
      break;
  }
  return stop;
}

StopRules read_stops(Fields& fields, DefaultStops defaults, const ServedModel& model) {
  const JsonValue* tokens = fields.find("stop_tokens");
  StopRules stop;
  if (tokens || fields.find("stop")) {
    if (tokens) read_stop_tokens(fields, *tokens, model, stop);
    read_stop(fields, stop);
  } else {
    stop = default_stops(defaults, model);
  }
  if (model.end_token) stop.ids.push_back(*model.end_token);
  std::sort(stop.ids.begin(), stop.ids.end());
  stop.ids.erase(std::unique(stop.ids.begin(), stop.ids.end()), stop.ids.end());
  stop.include_text = fields.boolean("include_stop_str_in_output").value_or(false);
  return stop;
}

// The tuned state that a request names beside its model, by field or header; empty: none.
std::string state_name(const Call& call, Fields& fields) {
  const std::string field = fields.text("state_id").value_or(std::string());
  const std::string header(call.request().headers.get("X-RWKV-State-Id"));
  if (!field.empty() && !header.empty() && field != header) {
    fields.fail(bad_value(
        fmt::format("'state_id' is '{}' but the header X-RWKV-State-Id is '{}'", field, header), "state_id"));
  }
  return field.empty() ? header : field;
}

std::optional<ApiError> size_fault(const Submission& submission, const ServerLimits& limits) {
  const int64_t rows = static_cast<int64_t>(submission.prompts.size()) * submission.rows_per_prompt;
  if (rows > limits.max_request_rows) {
    ApiError error = bad_value(fmt::format("bsz overflow, Max bsz={}", limits.max_request_rows));
    error.facts = {{"request_bsz", rows}, {"max_bsz", limits.max_request_rows}};
    return error;
  }
  int64_t tokens = 0;
  for (const auto& prompt : submission.prompts) {
    tokens += static_cast<int64_t>(prompt.size()) * submission.rows_per_prompt;
  }
  if (tokens > limits.max_prompt_tokens) {
    return bad_value(fmt::format("the prompts hold {} tokens over all rows; at most {} are allowed", tokens,
                                 limits.max_prompt_tokens));
  }
  const Generation& generation = submission.generation;
  const auto rules = static_cast<int64_t>(generation.stop.texts.size() + generation.stop.ids.size() +
                                          generation.sampling.logit_bias.size());
  if (rules * rows > kMaxRulesOverRows) {
    return bad_value(fmt::format("{} stops and biases for each of {} rows; at most {} together are allowed",
                                 rules, rows, kMaxRulesOverRows));
  }
  return std::nullopt;
}

std::vector<Ask> make_asks(Submission& submission) {
  const Generation& generation = submission.generation;
  std::optional<int32_t> end;  // what may end a constrained row
  for (const int32_t id : generation.stop.ids) {
    if (id == submission.model->end_token) end = id;
  }
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
      ask.stop = generation.stop;
      ask.banned_at = generation.banned_at;
      if (generation.constraint) {
        ask.mask = make_mask(generation.constraint, *submission.model->tokenizer, end);
      }
      ask.use_prefix_cache = generation.use_prefix_cache;
      ask.score_prompt = submission.score_prompt;
      ask.state = submission.state;
      if (ask.state.initial_state.empty()) ask.state.initial_state = submission.model->initial_state;
    }
  }
  return rows;
}

ApiError submit_fault(const Error& error) {
  ApiError fault = api_error(error);
  if (error.kind == ErrorKind::unavailable) {
    fault.text = "Request queue full";
    fault.code = "queue_full";
  }
  return fault;
}

}  // namespace

Generation read_generation(Fields& fields, const GenerationDefaults& defaults, const ServedModel& model,
                           const ServerLimits& limits) {
  Generation generation;
  const std::string_view tokens_field =
      fields.find("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  generation.max_tokens =
      std::min(fields.integer(tokens_field, 0).value_or(defaults.max_tokens), limits.max_tokens);
  read_sampling(fields, defaults, model, generation.sampling);
  read_logit_bias(fields, model, generation.sampling);
  generation.stop = read_stops(fields, defaults.stops, model);
  if (fields.boolean("ignore_eos").value_or(false)) {
    generation.stop = {};
    if (model.end_token) generation.sampling.banned.push_back(*model.end_token);
  }
  generation.stream = fields.boolean("stream").value_or(defaults.stream);
  generation.chunk_size = std::max<int64_t>(1, fields.integer("chunk_size").value_or(defaults.chunk_size));
  generation.pad_zero = fields.boolean("pad_zero").value_or(defaults.pad_zero);
  generation.use_prefix_cache = fields.boolean("use_prefix_cache").value_or(true);
  if (const JsonObject* options = fields.object("stream_options")) {
    const JsonValue* usage = options->find("include_usage");
    const std::optional<bool> flag = usage && !usage->is_null() ? lenient_bool(*usage) : false;
    if (!flag) fields.fail_type("stream_options.include_usage", *usage, "true or false");
    generation.include_usage = flag.value_or(false);
  }
  return generation;
}

ServedModelPtr pick_model(const Call& call, Fields& fields) {
  const std::string name = model_name(fields, {});
  if (fields.failed()) return nullptr;
  const ModelRegistry& models = call.service().models;
  const std::string state = state_name(call, fields);
  if (fields.failed()) return nullptr;
  ServedModelPtr model = models.find(name, call.service().options.strict_model);
  if (model && state.empty()) return model;
  if (model) {
    ServedModelPtr started = models.with_state(model, state);
    if (!started) {
      fields.fail({404, fmt::format("The state '{}' does not exist", state), "state_id", "not_found", {}});
    }
    return started;
  }
  if (models.empty()) {
    fields.fail({503, "No model loaded", {}, "model_not_loaded", {}});
  } else {
    fields.fail({404, fmt::format("The model '{}' does not exist", name), "model", "model_not_found", {}});
  }
  return nullptr;
}

std::string model_name(Fields& fields, std::string_view otherwise) {
  std::string name = fields.text("model").value_or(std::string());
  return name.empty() ? std::string(otherwise) : name;
}

void force_reasoning(Generation& generation, const Tokenizer& tokenizer) {
  const std::vector<int32_t> closers = think_closers(tokenizer);
  if (closers.empty()) return;
  for (const int64_t position : kThinkGuardPositions) generation.banned_at.push_back({position, closers});
}

void constrain(Fields& fields, Service& service, const ServedModelPtr& model, ThinkMode think,
               const AnswerRules& rules, std::string_view param, Generation& generation) {
  if (rules.any_text() || fields.failed()) return;
  auto constraint = service.constraints.find(model, answer_start(think), rules);
  if (constraint) {
    generation.constraint = std::move(*constraint);
  } else {
    fields.fail(bad_value(constraint.error().text, std::string(param), "unsupported_parameter"));
  }
}

void submit(std::shared_ptr<Call> call, Submission submission, std::unique_ptr<Writer> writer) {
  call->set_family(writer->family());
  Service& service = call->service();
  if (service.draining) return call->fail({503, "Server is shutting down", {}, "shutting_down", {}});
  if (const auto fault = size_fault(submission, service.options.limits)) return call->fail(*fault);

  ReplyOptions options;
  options.request_id = submission.request_id;
  options.stream = submission.generation.stream;
  options.chunk_size = submission.generation.chunk_size;
  options.rows_per_prompt = submission.rows_per_prompt;
  options.rows = static_cast<int32_t>(submission.prompts.size()) * submission.rows_per_prompt;
  options.padded = submission.generation.pad_zero;
  options.refuse_if_never_run = submission.refuse_if_never_run;
  options.split = submission.split;
  Engine& engine = *submission.model->engine;
  const bool resumable = options.stream && options.rows == 1;
  const auto reply = std::make_shared<Reply>(call, std::move(options), std::move(writer), submission.model);

  Request request{make_asks(submission), reply, submission.endpoint, submission.model_name, resumable};
  if (const Status accepted = engine.submit(std::move(request)); !accepted) {
    return call->fail(submit_fault(accepted.error()));
  }
  reply->watch_client();
}

std::optional<SessionUse> read_session(Fields& fields) {
  SessionUse session;
  session.id = fields.text("session_id").value_or(std::string());
  session.raw_append = fields.boolean("raw_append").value_or(false);
  session.keep_on_disconnect = fields.text("on_disconnect").value_or(std::string()) == "keep";
  if (session.id.empty()) return std::nullopt;
  return session;
}

StateLink link_session(const SessionUse& session, const std::string& prompt, const Tokenizer& tokenizer) {
  constexpr std::string_view kTurnEnd = "\n\n";
  const bool as_it_is = session.raw_append || prompt.starts_with(kTurnEnd);
  StateLink link;
  link.read_session = link.write_session = session.id;
  link.continuing = tokenizer.encode(as_it_is ? prompt : std::string(kTurnEnd) + prompt);
  link.keep_on_cancel = session.keep_on_disconnect;
  return link;
}

std::string new_request_id(std::string_view prefix) {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

}  // namespace fulmar
