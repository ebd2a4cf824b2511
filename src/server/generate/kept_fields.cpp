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

// An error shows at most so many bytes of a key.
constexpr size_t kLongestNamed = 80;

// What reads or counts for who has a key.
constexpr std::string_view kReading[] = {"/tokenize",        "/detokenize",
                                         "/v1/tokens/count", "/v1/messages/count_tokens",
                                         "/apply-template",  "/api/show"};

std::set<std::string_view> names_of(const Route& route) {
  std::set<std::string_view> names;
  for (const Field& field : kBodyFields.fields) names.insert(field.name);
  for (const FieldGroup* group : route.note->fields.all()) {
    for (const Field& field : group->fields) names.insert(field.name);
  }
  const bool makes_text = route.path.find("embed") == std::string_view::npos;
  if (makes_text && field_rule(route) == FieldRule::judged)
    names.insert(std::begin(kEverywhere), std::end(kEverywhere));
  return names;
}

std::map<std::string_view, std::shared_ptr<const MemberShape>> shapes_of(const Route& route) {
  std::map<std::string_view, std::shared_ptr<const MemberShape>> shapes;
  for (const FieldGroup* group : route.note->fields.all()) {
    for (const Field& field : group->fields) {
      const bool holds_members = !field.takes.members.empty() && field.takes.members != "any";
      if (holds_members && route.note->fields.find(field.name) == &field)
        shapes.emplace(field.name, MemberShape::parse(field.takes.members));
    }
  }
  return shapes;
}

// Tells whether a path serves several kinds of input.
bool is_shared(std::string_view path) {
  return path == "/v1/chat/completions" || path == "/chat/completions" || path == "/v1/completions" ||
         path == "/completions";
}

// Returns the route whose fields apply to a request: paths that several kinds of input share have one for
// each kind.
std::string_view noted_path(std::string_view path, const JsonValue& body) {
  if (!is_shared(path)) return path;
  switch (input_kind(body)) {
    case InputKind::contents:
      return "/state/chat/completions";
    case InputKind::prompt:
      return "/v1/completions";
    default:
      return "/v1/chat/completions";
  }
}

bool asks_for_something(const JsonValue& value, std::string_view neutral) {
  const bool asks = fulmar::asks_for_something(value);
  const bool empty = !asks && !value.is_bool() && !value.is_number();
  return neutral.empty() || empty ? asks : same_text(value) != neutral;
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

ApiError unknown_here(const std::string& shown, const JsonValue& value,
                      const std::set<std::string_view>& names) {
  std::vector<std::string_view> taken(names.begin(), names.end());
  std::erase_if(taken, [](std::string_view name) { return name == "params" || name == "password"; });
  return bad_value(
      fmt::format("'{}' is {}, which this route does not take; it takes {}", shown, describe(value),
                  taken.empty() ? std::string("none") : fmt::format("{}", fmt::join(taken, ", "))),
      shown, "unsupported_parameter");
}

}  // namespace

// One object of a request, and what the route uses of it.
struct KeptFields::Part {
  std::string prefix;  // of names, as they are shown
  const JsonValue& object;
  const Uses& uses;

  // Faults two spellings of one thing that differ.
  void check_spellings(UnkeptFields& found) const;
};

FieldRule field_rule(const Route& route) {
  const bool guarded =
      route.access == Access::admin || route.access == Access::listed || route.access == Access::kept;
  if (guarded) return FieldRule::refused;
  const bool reads = std::find(std::begin(kReading), std::end(kReading), route.path) != std::end(kReading);
  return reads ? FieldRule::told : FieldRule::judged;
}

KeptFields::KeptFields(std::span<const Route> routes)
    : vocabulary_(known_fields().begin(), known_fields().end()) {
  for (const Route& route : routes) {
    Uses& uses = uses_[route.path];
    uses.rule = field_rule(route);
    uses.names.merge(names_of(route));
    uses.shapes.merge(shapes_of(route));
  }
  Names listed;
  for (const KnownField& field : vocabulary_) listed.insert(field.name);
  for (const std::string_view path : kGenerating) {
    for (const std::string_view name : uses_[path].names) {
      if (listed.insert(name).second) vocabulary_.push_back({name});
    }
  }
  for (const KnownField& field : vocabulary_) known_.insert(field.name.substr(0, field.name.find('.')));
  options_.names = uses_["/v2/chat/completions"].names;
  options_.shapes = uses_["/v2/chat/completions"].shapes;
  options_.names.insert(std::begin(kOptions), std::end(kOptions));
  for (const char* of_the_request : {"model", "contents", "stream", "session_id", "params", "password"})
    options_.names.erase(of_the_request);
}

const KeptFields::Uses& KeptFields::used_by(std::string_view path, const JsonValue& body) const {
  static const Uses none;
  const auto found = uses_.find(noted_path(path, body));
  return found == uses_.end() ? none : found->second;
}

void KeptFields::note_unknown(const Part& part, UnreadMembers& unread) const {
  for (const auto& [key, value] : part.object.as_object().members()) {
    if (part.uses.names.contains(key) || !fulmar::asks_for_something(value)) continue;
    const bool known = is_known(key);
    if (part.uses.rule == FieldRule::told && known) unread.add_told(quoted_key(part.prefix, key));
    if (!known) unread.add_unknown(quoted_key(part.prefix, key));
  }
}

// Looks for each known field that the route does not keep.
void KeptFields::judge(const Part& part, UnkeptFields& found, UnreadMembers& unread) const {
  for (const KnownField& field : vocabulary_) {
    if (part.uses.rule == FieldRule::told && field.way != Unkept::refused_everywhere) continue;
    const JsonValue* value =
        part.uses.names.contains(field.name) ? nullptr : member_at(part.object, field.name);
    if (!value) continue;
    const std::string shown = part.prefix + std::string(field.name);
    if ((found.fault = word_fault(field, shown, *value))) return;
    if (field.way == Unkept::checked || !asks_for_something(*value, field.neutral)) continue;
    if (field.way == Unkept::refused || field.way == Unkept::refused_everywhere) {
      found.fault = unkept(shown, *value);
      return;
    }
    unread.add_told(fmt::format("'{}'", shown));
  }
}

void KeptFields::check_part(const Part& part, UnkeptFields& found, UnreadMembers& unread) const {
  if (found.fault || !part.object.is_object()) return;
  if (part.uses.rule == FieldRule::refused) {
    for (const auto& [key, value] : part.object.as_object().members()) {
      if (part.uses.names.contains(key) || !fulmar::asks_for_something(value)) continue;
      found.fault = unknown_here(part.prefix + key.substr(0, kLongestNamed), value, part.uses.names);
      return;
    }
  }
  if (part.uses.rule != FieldRule::refused) judge(part, found, unread);
  for (const auto& [name, shape] : part.uses.shapes) {
    if (const JsonValue* value = part.object.find(name))
      find_unread(*value, *shape, part.prefix + std::string(name), unread);
  }
  part.check_spellings(found);
  note_unknown(part, unread);
}

void KeptFields::Part::check_spellings(UnkeptFields& found) const {
  for (const auto& [first, second] : spellings()) {
    const JsonValue *one = object.find(first), *other = object.find(second);
    const bool both = one && other && !one->is_null() && !other->is_null() && uses.names.contains(first) &&
                      uses.names.contains(second);
    if (!both || found.fault || same_text(*one) == same_text(*other)) continue;
    found.fault = bad_value(fmt::format("'{}' is {}, but '{}' is {}; wanted one of them, or both alike",
                                        first, describe(*one), second, describe(*other)),
                            std::string(first), "unsupported_parameter");
  }
}

bool KeptFields::keeps(std::string_view path, const JsonValue& body, std::string_view name) const {
  return used_by(path, body).names.contains(name);
}

UnkeptFields KeptFields::check(std::string_view path, const JsonValue& body) const {
  UnkeptFields found;
  UnreadMembers unread;
  if (is_shared(path) && input_kind(body) == InputKind::several) return found;  // refused by its handler
  const Uses& uses = used_by(path, body);
  std::vector<Part> parts = {{"", body, uses}};
  if (const JsonValue* params = body.find("params")) parts.push_back({"params.", *params, uses});
  const JsonValue* options = path.starts_with("/api/") ? body.find("options") : nullptr;
  if (options) parts.push_back({"options.", *options, options_});
  for (const Part& part : parts) check_part(part, found, unread);
  found.at_once = uses.rule != FieldRule::judged || (!found.fault && unread.refused);
  if (!found.fault && unread.refused) found.fault = unkept(unread.refused->first, *unread.refused->second);
  if (!unread.told.empty())
    found.warnings.push_back(told_names("not kept on this route", unread.told, unread.more_told));
  if (!unread.unknown.empty())
    found.warnings.push_back(told_names("not known and ignored", unread.unknown, unread.more_unknown));
  return found;
}

}  // namespace fulmar
