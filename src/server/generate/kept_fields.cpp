// Lists the known fields and checks requests against them.
#include "server/generate/kept_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "server/core/fields.h"
#include "server/generate/input_kind.h"

namespace fulmar {
namespace {

using enum Unkept;

// Fields of our own whose absence on a route is a warning instead of a refusal, and fields that no route has.
// Warned of, not refused, are those that some clients send without asking their users, and those that
// docs/http.md calls ignored.
constexpr KnownField kFields[] = {
    // Sampling, which batches and translations have fixed.
    {"top_k", told},
    {"top_p", told, "1"},
    {"min_p", told},
    {"presence_penalty", told},
    {"frequency_penalty", told},
    {"penalty_decay", told},
    {"alpha_presence", told},
    {"alpha_frequency", told},
    {"alpha_decay", told},
    {"logit_bias", told},
    {"temperature_last", told},
    {"temperature", told},
    {"max_tokens", told},
    {"max_completion_tokens", told},
    {"seed", told},
    {"ignore_eos", told},
    {"include_stop_str_in_output", told},
    {"stop", told},
    {"stop_tokens", told},
    {"stream", told},
    {"stream_options", told},
    {"chunk_size", told},
    {"pad_zero", told},
    {"use_prefix_cache", told, "true"},
    {"speculate", told, "true"},
    {"noise", told},
    // Thinking, which raw prompts write themselves.
    {"think", told},
    {"enable_think", told},
    {"think_type", told},
    {"reasoning_effort", told},
    {"chat_template_kwargs", told},
    {"force_reasoning", told},
    {"reasoning_format", checked, {}, " auto none "},
    {"raw_append", told},
    {"on_disconnect", told},
    {"add_generation_prompt", told, "true"},
    // Numbers of answers, and what they show.
    {"n", refused, "1"},
    {"best_of", refused, "1"},
    {"n_cmpl", refused, "1"},
    {"n_probs", refused},
    {"prompt_logprobs", refused},
    {"post_sampling_probs", refused},
    {"return_tokens", refused},
    {"return_token_ids", refused},
    {"return_tokens_as_token_ids", refused},
    {"return_hidden_states", refused},
    {"response_fields", refused},
    {"include_reasoning", refused, "true"},
    {"verbosity", told, {}, " low medium high "},
    {"text.verbosity", told, {}, " low medium high "},
    {"output_config.effort", told, {}, " low medium high xhigh max "},
    // What an answer is made from.
    {"context", refused},
    {"template", refused},
    {"images", refused},
    {"image_data", refused},
    {"multimodal_data", refused},
    {"audio", refused},
    {"documents", refused},
    {"lora", refused},
    {"lora_path", refused},
    {"session_params", refused},
    {"custom_logit_processor", refused},
    {"logits_processors", refused},
    {"prompt_embeds", refused},
    {"system_prompt", refused},
    {"chat_template", refused},
    {"continue_final_message", refused},
    {"assistant_prefill", refused},
    {"truncate_prompt_tokens", refused},
    {"web_search_options", refused},
    {"mcp_servers", refused},
    {"container", refused},
    {"conversation", refused},
    {"max_tool_calls", refused},
    {"context_management", told},
    {"n_keep", told},
    {"num_keep", told},
    {"num_ctx", told},
    {"truncate", checked},
    {"shift", checked},
    {"truncation", checked, {}, " auto disabled "},
    // How tokens are drawn elsewhere.
    {"allowed_token_ids", refused},
    {"bad_words", refused},
    {"stop_token_ids", refused},
    {"min_tokens", refused},
    {"n_indent", refused},
    {"t_max_predict_ms", refused},
    {"use_beam_search", refused},
    {"length_penalty", told, "1"},
    {"early_stopping", told},
    {"repetition_penalty", told, "1"},
    {"repeat_penalty", told, "1"},
    {"repeat_last_n", told},
    {"penalize_newline", told},
    {"typical_p", told, "1"},
    {"typ_p", told, "1"},
    {"tfs_z", told, "1"},
    {"top_a", told},
    {"top_n_sigma", told, "-1"},
    {"min_keep", told},
    {"samplers", told},
    {"mirostat", told},
    {"mirostat_tau", told},
    {"mirostat_eta", told},
    {"dynatemp_range", told},
    {"dynatemp_exponent", told, "1"},
    {"dry_multiplier", told},
    {"dry_base", told},
    {"dry_allowed_length", told},
    {"dry_penalty_last_n", told},
    {"dry_sequence_breakers", told},
    {"xtc_probability", told},
    {"xtc_threshold", told},
    {"skip_special_tokens", told, "true"},
    {"spaces_between_special_tokens", told, "true"},
    // Whose a request is, how soon, and what is remembered of it.
    {"user", told},
    {"metadata", told},
    {"store", told},
    {"runtime", told},
    {"service_tier", checked, {}, " auto default flex scale priority standard_only "},
    {"priority", told},
    {"keep_alive", told},
    {"cache_prompt", told, "true"},
    {"cache_control", told},
    {"cache_salt", told},
    {"prompt_cache_key", told},
    {"prompt_cache_retention", told},
    {"safety_identifier", told},
    {"id_slot", told, "-1"},
    {"slot_id", told, "-1"},
    {"timings_per_token", told},
    {"return_progress", told},
    {"inference_geo", told},
    {"speed", told, "\"standard\""},
    {"num_gpu", told},
    {"num_thread", told},
    {"num_batch", told},
    {"main_gpu", told},
    {"use_mmap", told},
    {"use_mlock", told},
    {"numa", told},
    {"low_vram", told},
};

// Judged wherever text is made (refuse_tools, refuse_session); the last ones are taken and change nothing, by
// contract.
constexpr std::string_view kEverywhere[] = {"tools",          "tool_choice",     "parallel_tool_calls",
                                            "session_id",     "scheduler",       "metrics",
                                            "report_metrics", "include_metrics", "placeholders"};

// Those of `options` on Ollama's routes that go on, beside what shapes a raw completion.
constexpr std::string_view kOptions[] = {
    "num_predict",      "think",           "enable_think",        "think_type",
    "reasoning_effort", "force_reasoning", "chat_template_kwargs"};

constexpr std::string_view kGenerating[] = {"/v1/chat/completions",
                                            "/openai/v1/chat/completions",
                                            "/v1/completions",
                                            "/v1/responses",
                                            "/v1/messages",
                                            "/api/chat",
                                            "/api/generate",
                                            "/completion",
                                            "/infill",
                                            "/v2/chat/completions",
                                            "/v3/chat/completions",
                                            "/v1/batch/completions",
                                            "/big_batch/completions",
                                            "/FIM/v1/batch-FIM",
                                            "/translate/v1/batch-translate",
                                            "/state/chat/completions",
                                            "/multi_state/chat/completions",
                                            "/v1/embeddings",
                                            "/api/embed",
                                            "/api/embeddings"};

// Pairs of names for one parameter; a request with both must give them the same value.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"alpha_presence", "presence_penalty"},
    {"alpha_frequency", "frequency_penalty"},
    {"alpha_decay", "penalty_decay"},
    {"max_output_tokens", "max_tokens"},
    {"n_predict", "max_tokens"},
    {"num_predict", "max_tokens"},
    {"enable_think", "think"},
};

// A warning about unknown keys shows at most this many, and none that is longer.
constexpr size_t kShownKeys = 8;
constexpr size_t kLongestShownKey = 40;

std::set<std::string_view> names_of(const Route& route) {
  std::set<std::string_view> names;
  for (const Field& field : kBodyFields.fields) names.insert(field.name);
  for (const FieldGroup* group : route.note->fields.all()) {
    for (const Field& field : group->fields) names.insert(field.name);
  }
  if (route.path.find("embed") == std::string_view::npos)
    names.insert(std::begin(kEverywhere), std::end(kEverywhere));
  return names;
}

// Returns the route whose fields apply to a request: paths that several kinds of input share have one for
// each kind.
std::string_view noted_path(std::string_view path, const JsonValue& body) {
  const bool shared = path == "/v1/chat/completions" || path == "/chat/completions" ||
                      path == "/v1/completions" || path == "/completions";
  if (!shared) return path;
  switch (input_kind(body)) {
    case InputKind::contents:
      return "/state/chat/completions";
    case InputKind::prompt:
      return "/v1/completions";
    default:
      return "/v1/chat/completions";
  }
}

bool is_empty(const JsonValue& value) {
  if (value.is_string()) return value.as_string().empty();
  if (value.is_array()) return value.as_array().empty();
  return value.is_object() && value.as_object().members().empty();
}

bool asks_for_something(const JsonValue& value, std::string_view neutral) {
  if (value.is_null() || is_empty(value)) return false;
  if (!neutral.empty()) return same_text(value) != neutral;
  if (value.is_bool()) return value.as_bool();
  return !(value.is_number() && value.as_double() == 0);
}

// Returns the member that a name such as "a.b" stands for, or null.
const JsonValue* member_at(const JsonValue& object, std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return object.find(name);
  const JsonValue* holder = object.find(name.substr(0, dot));
  return holder ? holder->find(name.substr(dot + 1)) : nullptr;
}

ApiError unkept(const std::string& shown, const JsonValue& value) {
  return bad_value(
      fmt::format("'{}' is {}, which is not kept on this route; leave it out", shown, describe(value)), shown,
      "unsupported_parameter");
}

std::optional<ApiError> word_fault(const KnownField& field, const std::string& shown,
                                   const JsonValue& value) {
  if (field.words.empty() || value.is_null()) return std::nullopt;
  const bool fits =
      value.is_string() && field.words.find(" " + value.as_string() + " ") != std::string_view::npos;
  if (fits) return std::nullopt;
  std::string_view words = field.words;
  words.remove_prefix(1);
  words.remove_suffix(1);
  return bad_value(fmt::format("'{}' is {}; wanted one of: {}", shown, describe(value), words), shown);
}

}  // namespace

// One object of a request, and the names of its members that the route uses.
struct KeptFields::Part {
  std::string prefix;  // of names, as they are shown
  const JsonValue& object;
  const Names& kept;

  // Faults two spellings of one thing that differ.
  void check_spellings(UnkeptFields& found) const;
};

// Names for the warnings: fields that the route does not use, and keys that no API has.
struct KeptFields::Told {
  std::vector<std::string> unkept, unknown;

  void add_to(std::vector<std::string>& warnings);
};

KeptFields::KeptFields(std::span<const Route> routes) : vocabulary_(std::begin(kFields), std::end(kFields)) {
  for (const Route& route : routes) kept_[route.path].merge(names_of(route));
  Names listed;
  for (const KnownField& field : vocabulary_) listed.insert(field.name);
  for (const std::string_view path : kGenerating) {
    for (const std::string_view name : kept_[path]) {
      if (listed.insert(name).second) vocabulary_.push_back({name});
    }
  }
  for (const KnownField& field : vocabulary_) known_.insert(field.name.substr(0, field.name.find('.')));
  kept_options_ = kept_["/v2/chat/completions"];
  kept_options_.insert(std::begin(kOptions), std::end(kOptions));
  for (const char* of_the_request : {"model", "contents", "stream", "session_id", "params", "password"})
    kept_options_.erase(of_the_request);
}

const KeptFields::Names& KeptFields::kept_by(std::string_view path, const JsonValue& body) const {
  static const Names none;
  const auto found = kept_.find(noted_path(path, body));
  return found == kept_.end() ? none : found->second;
}

void KeptFields::note_unknown(const Part& part, Told& told) const {
  if (!part.object.is_object()) return;
  for (const auto& [key, value] : part.object.as_object().members()) {
    if (part.kept.contains(key) || is_known(key) || !asks_for_something(value, "")) continue;
    told.unknown.push_back(key.size() > kLongestShownKey ? fmt::format("a key of {} bytes", key.size())
                                                         : fmt::format("'{}{}'", part.prefix, key));
  }
}

void KeptFields::Told::add_to(std::vector<std::string>& warnings) {
  if (!unkept.empty()) {
    warnings.push_back(fmt::format("not kept on this route: {}", fmt::join(unkept, ", ")));
  }
  if (unknown.empty()) return;
  const size_t more = unknown.size() - std::min(unknown.size(), kShownKeys);
  unknown.resize(unknown.size() - more);
  warnings.push_back(fmt::format("not known and ignored: {}{}", fmt::join(unknown, ", "),
                                 more > 0 ? fmt::format(" and {} more", more) : std::string()));
}

void KeptFields::check_part(const Part& part, UnkeptFields& found, Told& told) const {
  for (const KnownField& field : vocabulary_) {
    const JsonValue* value = part.kept.contains(field.name) ? nullptr : member_at(part.object, field.name);
    if (!value || found.fault) continue;
    const std::string shown = part.prefix + std::string(field.name);
    if ((found.fault = word_fault(field, shown, *value))) return;
    if (field.way == checked || !asks_for_something(*value, field.neutral)) continue;
    if (field.way == refused) {
      found.fault = unkept(shown, *value);
    } else {
      told.unkept.push_back(fmt::format("'{}'", shown));
    }
  }
}

void KeptFields::Part::check_spellings(UnkeptFields& found) const {
  for (const auto& [first, second] : kSpellings) {
    const JsonValue *one = object.find(first), *other = object.find(second);
    const bool both =
        one && other && !one->is_null() && !other->is_null() && kept.contains(first) && kept.contains(second);
    if (!both || found.fault || same_text(*one) == same_text(*other)) continue;
    found.fault = bad_value(fmt::format("'{}' is {}, but '{}' is {}; wanted one of them, or both alike",
                                        first, describe(*one), second, describe(*other)),
                            std::string(first), "unsupported_parameter");
  }
}

bool KeptFields::keeps(std::string_view path, const JsonValue& body, std::string_view name) const {
  return kept_by(path, body).contains(name);
}

UnkeptFields KeptFields::check(std::string_view path, const JsonValue& body) const {
  UnkeptFields found;
  Told told;
  const Names& kept = kept_by(path, body);
  std::vector<Part> parts = {{"", body, kept}};
  if (const JsonValue* params = body.find("params")) parts.push_back({"params.", *params, kept});
  const JsonValue* options = path.starts_with("/api/") ? body.find("options") : nullptr;
  if (options) parts.push_back({"options.", *options, kept_options_});
  for (const Part& part : parts) {
    check_part(part, found, told);
    part.check_spellings(found);
    note_unknown(part, told);
  }
  told.add_to(found.warnings);
  return found;
}

}  // namespace fulmar
