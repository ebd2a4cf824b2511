// Reads the fields of docs/http.md, "Generation parameters".
#include "server/generate/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>

#include "net/json.h"
#include "server/generate/constraint_fields.h"
#include "text/think_mode.h"

namespace fulmar {
namespace {

constexpr int64_t kMaxStopId = 65535;
constexpr size_t kMaxStopTexts = 16;  // of the field `stop`; `stop_tokens` may hold any number
// The defaults in OpenAI's API reference.
constexpr SamplingAdvice kOpenaiSampling{
    .temperature = 1.0, .top_p = 1.0, .top_k = 0, .presence = 0, .frequency = 0, .decay = 0.996};
constexpr int64_t kOpenaiCompletionTokens = 16;

GenerationDefaults with_sampling(GenerationDefaults defaults, const SamplingAdvice& advice) {
  defaults.temperature = advice.temperature;
  defaults.top_k = advice.top_k;
  defaults.top_p = advice.top_p;
  defaults.presence = advice.presence;
  defaults.frequency = advice.frequency;
  defaults.decay = advice.decay;
  return defaults;
}

using NumberField = TypedField<Takes::Type::number>;

std::optional<double> either_number(Fields& fields, NumberField first, NumberField second) {
  return fields.number(fields.find(first.field) ? first : second);
}

void read_sampling(Fields& fields, const GenerationDefaults& defaults, const ServedModel& model,
                   SamplingParams& sampling) {
  const double temperature = fields.number(kRowFields["temperature"])
                                 .value_or(model.default_temperature.value_or(defaults.temperature));
  sampling.temperature = temperature < 0.001 ? 0.0f : static_cast<float>(temperature);
  const int64_t top_k = fields.integer(kSamplingFields["top_k"]).value_or(defaults.top_k);
  sampling.top_k = static_cast<int32_t>(std::clamp<int64_t>(top_k, 0, std::numeric_limits<int32_t>::max()));
  const double top_p =
      fields.number(kSamplingFields["top_p"]).value_or(model.default_top_p.value_or(defaults.top_p));
  sampling.top_p = top_p < 0 || top_p > 1 ? 1.0f : static_cast<float>(top_p);
  sampling.min_p = static_cast<float>(fields.number(kSamplingFields["min_p"]).value_or(0));
  sampling.presence = static_cast<float>(
      either_number(fields, kSamplingFields["alpha_presence"], kSamplingFields["presence_penalty"])
          .value_or(defaults.presence));
  sampling.frequency = static_cast<float>(
      either_number(fields, kSamplingFields["alpha_frequency"], kSamplingFields["frequency_penalty"])
          .value_or(defaults.frequency));
  sampling.decay = static_cast<float>(
      either_number(fields, kSamplingFields["alpha_decay"], kSamplingFields["penalty_decay"])
          .value_or(defaults.decay));
  sampling.temperature_last = fields.flag(kSamplingFields["temperature_last"]);
  if (const auto seed = fields.seed(kRowFields["seed"])) {
    sampling.seed = *seed;
  } else {
    std::random_device device;
    sampling.seed = (uint64_t{device()} << 32) | device();
  }
}

void read_logit_bias(Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  const JsonObject* biases = fields.object(kSamplingFields["logit_bias"]);
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
  const std::vector<std::string> texts = fields.texts(kStopFields["stop"]);
  if (texts.size() > kMaxStopTexts) {
    return fields.fail(bad_value(
        fmt::format("'stop' holds {} texts; at most {} are allowed", texts.size(), kMaxStopTexts), "stop"));
  }
  for (const std::string& text : texts) add_stop_text(text, stop);
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
      stop.ids = model.stops.chat_ids;
      stop.texts = model.stops.chat_texts;
      if (!model.end_text.empty()) stop.texts.push_back(model.end_text);
      break;
    case DefaultStops::infill:
      stop.ids = model.stops.infill_ids;
      stop.texts = model.stops.infill_texts;
      break;
  }
  return stop;
}

void sort_ids(StopRules& stop) {
  std::sort(stop.ids.begin(), stop.ids.end());
  stop.ids.erase(std::unique(stop.ids.begin(), stop.ids.end()), stop.ids.end());
}

// Reads the fields `stop` and `stop_tokens`; nothing when both are absent.
std::optional<StopRules> read_asked_stops(Fields& fields, const ServedModel& model) {
  const JsonValue* tokens = fields.find(kStopFields["stop_tokens"]);
  if (!tokens && !fields.find(kStopFields["stop"])) return std::nullopt;
  StopRules stop;
  if (tokens) read_stop_tokens(fields, *tokens, model, stop);
  read_stop(fields, stop);
  stop.include_text = fields.flag(kRowFields["include_stop_str_in_output"]);
  return stop;
}

StopRules all_stops(Fields& fields, const std::optional<StopRules>& asked, DefaultStops defaults,
                    const ServedModel& model) {
  StopRules stop = asked ? *asked : default_stops(defaults, model);
  if (model.end_token) stop.ids.push_back(*model.end_token);
  // The mark that ends a turn is no text that an answer could hold.
  if (defaults == DefaultStops::user_text && !model.prompt_template->after_turn.empty())
    add_chat_stops(model, stop);
  sort_ids(stop);
  stop.include_text = fields.flag(kRowFields["include_stop_str_in_output"]);
  return stop;
}

}  // namespace

void add_chat_stops(const ServedModel& model, StopRules& stop) {
  const StopRules usual = default_stops(DefaultStops::user_text, model);
  for (const std::string& text : usual.texts) {
    if (std::find(stop.texts.begin(), stop.texts.end(), text) == stop.texts.end()) stop.texts.push_back(text);
  }
  stop.ids.insert(stop.ids.end(), usual.ids.begin(), usual.ids.end());
  sort_ids(stop);
}

Generation read_generation(Fields& fields, const GenerationDefaults& defaults, const ServedModel& model,
                           const ServerLimits& limits) {
  Generation generation;
  const auto most = fields.integer(kRowFields["max_completion_tokens"]);
  const auto asked_most = most ? most : fields.integer(kRowFields["max_tokens"]);
  generation.max_tokens = std::min(asked_most.value_or(defaults.max_tokens), limits.max_tokens);
  read_sampling(fields, defaults, model, generation.sampling);
  read_logit_bias(fields, model, generation.sampling);
  const std::optional<StopRules> asked = read_asked_stops(fields, model);
  generation.stop = all_stops(fields, asked, defaults.stops, model);
  generation.asked_stop = asked.value_or(StopRules{});
  if (fields.flag(kRowFields["ignore_eos"])) {
    generation.stop = generation.asked_stop = {};
    if (model.end_token) generation.sampling.banned.push_back(*model.end_token);
  }
  generation.stream = fields.boolean(kRowFields["stream"]).value_or(defaults.stream);
  generation.chunk_size =
      std::max<int64_t>(1, fields.integer(kRowFields["chunk_size"]).value_or(defaults.chunk_size));
  generation.pad_zero = fields.boolean(kRowFields["pad_zero"]).value_or(defaults.pad_zero);
  generation.use_prefix_cache = fields.flag(kRowFields["use_prefix_cache"]);
  generation.speculate = fields.flag(kRowFields["speculate"]);
  generation.answer = read_constraint(fields);
  return generation;
}

bool wants_usage(Fields& fields) {
  const JsonObject* options = fields.object(kUsageFields["stream_options"]);
  const JsonValue* usage = options ? options->find("include_usage") : nullptr;
  if (!usage || usage->is_null()) return false;
  const std::optional<bool> flag = lenient_bool(*usage);
  if (!flag) fields.fail_type("stream_options.include_usage", *usage, "true or false");
  return flag.value_or(false);
}

GenerationDefaults chat_defaults(const ServedModel& model, ThinkMode think, const ServerOptions& options) {
  const std::optional<SamplingAdvice>& advice = model.prompt_template->advice(think);
  if (advice && options.recommended_sampling) return with_sampling(kChatDefaults, *advice);
  return options.openai_defaults ? with_sampling(kChatDefaults, kOpenaiSampling) : kChatDefaults;
}

GenerationDefaults completion_defaults(const ServerOptions& options) {
  GenerationDefaults defaults = kCompletionDefaults;
  if (options.openai_defaults) defaults.max_tokens = kOpenaiCompletionTokens;
  return defaults;
}

void force_reasoning(Generation& generation, const Tokenizer& tokenizer) {
  const std::vector<int32_t> closers = think_closers(tokenizer);
  if (closers.empty()) return;
  for (const int64_t position : kThinkGuardPositions) generation.banned_at.push_back({position, closers});
}

}  // namespace fulmar
