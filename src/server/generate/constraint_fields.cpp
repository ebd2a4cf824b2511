// Reads the members that constrain an answer.
#include "server/generate/constraint_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "net/json.h"

namespace fulmar {
namespace {

ApiError unsupported(std::string_view name, const JsonValue& found, std::string_view instead) {
  return bad_value(
      fmt::format("'{}' is {}, which this server does not support{}", name, describe(found), instead),
      std::string(name.substr(0, name.find('.'))), "unsupported_parameter");
}

bool is_word(const JsonValue& value, std::string_view word) {
  return value.is_string() && value.as_string() == word;
}

bool is_some_text(const JsonValue& value) { return value.is_string() && !value.as_string().empty(); }

bool is_empty_list(const JsonValue& value) { return value.is_array() && value.as_array().empty(); }

// Reads a schema, or a string that holds one as JSON.
void read_schema(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (value.is_object() || value.is_bool()) {
    rules.schema = value;
    return;
  }
  const auto parsed = value.is_string() ? parse_json(value.as_string()) : Error{};
  if (parsed && (parsed->is_object() || parsed->is_bool())) {
    rules.schema = *parsed;
    return;
  }
  fields.fail_type(name, value, "a schema, or a text that is one");
}

void read_regex(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (!is_some_text(value)) return fields.fail_type(name, value, "a regular expression");
  rules.regex = value.as_string();
}

void read_grammar(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (!is_some_text(value)) return fields.fail_type(name, value, "a grammar as a text");
  rules.grammar = value.as_string();
}

// Reads a grammar; an empty string means none, as llama.cpp's web page sends it.
void read_grammar_or_none(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  const bool none = value.is_string() && value.as_string().empty();
  if (!none) read_grammar(fields, value, name, rules);
}

void read_choice(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  const bool is_list = value.is_array() && std::all_of(value.as_array().begin(), value.as_array().end(),
                                                       [](const JsonValue& one) { return one.is_string(); });
  if (!is_list || is_empty_list(value)) return fields.fail_type(name, value, "an array of at least one text");
  for (const JsonValue& one : value.as_array()) rules.choice.push_back(one.as_string());
}

void read_any_object(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  const auto wanted = lenient_bool(value);
  if (!wanted) return fields.fail_type(name, value, "true or false");
  rules.json_object = *wanted;
}

void read_response_format(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (!value.is_object()) return fields.fail_type(name, value, "an object");
  rules = read_format(fields, &value.as_object(), name);
}

// Reads Anthropic's formats: always a schema, and always strict.
void read_output_format(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  read_response_format(fields, value, name, rules);
  rules.strict = true;
}

// Reads Ollama's `format`: "json" or a schema. Its own clients send "" for none.
void read_plain_format(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (is_word(value, "")) return;
  if (is_word(value, "json")) {
    rules.json_object = true;
  } else if (value.is_object()) {
    rules.schema = value;
  } else {
    fields.fail_type(name, value, "\"json\" or a schema");
  }
}

void refuse(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules&) {
  fields.fail(unsupported(name, value, ""));
}

void refuse_flag(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (lenient_bool(value).value_or(true)) refuse(fields, value, name, rules);
}

void refuse_list(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  if (!is_empty_list(value)) refuse(fields, value, name, rules);
}

void refuse_functions(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules&) {
  if (is_empty_list(value) || is_word(value, "none")) return;
  fields.fail(unsupported(name, value, "; use 'tools' and 'tool_choice'"));
}

void read_no_whitespace(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules) {
  const auto wanted = lenient_bool(value);
  if (!wanted) return fields.fail_type(name, value, "true or false");
  if (*wanted) rules.whitespace = Whitespace::none;
}

constexpr ConstraintField kFields[] = {
    {"response_format", "OpenAI", R"(`text`, `json_object` (with a `schema` too) or `json_schema`)",
     read_response_format},
    {"text.format", "OpenAI, `/v1/responses`",
     R"(`text`, `json_object` (with a `schema` too) or `json_schema`)", read_response_format},
    {"functions", "OpenAI, long ago", R"()", refuse_functions},
    {"function_call", "OpenAI, long ago", R"()", refuse_functions},
    {"output_config.format", "Anthropic", R"(`json_schema`)", read_output_format},
    {"output_format", "Anthropic, older", R"(`json_schema`)", read_output_format},
    {"format", "Ollama", R"(`"json"` or a schema; `""`: none)", read_plain_format},
    {"json_schema", "llama.cpp, SGLang", R"(a schema, or the text of one)", read_schema},
    {"grammar", "llama.cpp", R"(a grammar: GBNF or Lark; `""`: none)", read_grammar_or_none},
    {"grammar_lazy", "llama.cpp", R"()", refuse_flag},
    {"grammar_triggers", "llama.cpp", R"()", refuse_list},
    {"regex", "SGLang", R"(a regular expression)", read_regex},
    {"ebnf", "SGLang", R"(a grammar: GBNF or Lark)", read_grammar},
    {"structural_tag", "SGLang", R"()", refuse},
    {"guided_json", "vLLM, older", R"(a schema, or the text of one)", read_schema},
    {"guided_regex", "vLLM, older", R"(a regular expression)", read_regex},
    {"guided_choice", "vLLM, older", R"(a list of texts)", read_choice},
    {"guided_grammar", "vLLM, older", R"(a grammar: GBNF or Lark)", read_grammar},
    {"guided_json_object", "vLLM, older", R"(`true`: any object)", read_any_object},
    {"guided_whitespace_pattern", "vLLM, older", R"()", refuse},
    {"structured_outputs.json", "vLLM", R"(a schema, or the text of one)", read_schema},
    {"structured_outputs.regex", "vLLM", R"(a regular expression)", read_regex},
    {"structured_outputs.choice", "vLLM", R"(a list of texts)", read_choice},
    {"structured_outputs.grammar", "vLLM", R"(a grammar: GBNF or Lark)", read_grammar},
    {"structured_outputs.json_object", "vLLM", R"(`true`: any object)", read_any_object},
    {"structured_outputs.structural_tag", "vLLM", R"()", refuse},
    {"structured_outputs.whitespace_pattern", "vLLM", R"()", refuse},
    {"structured_outputs.disable_additional_properties", "vLLM", R"()", refuse_flag},
    {"structured_outputs.disable_any_whitespace", "vLLM", R"(`true`: as `"whitespace":"none"`)",
     read_no_whitespace},
};
// Members of structured_outputs that constrain nothing.
constexpr std::string_view kHints[] = {"disable_fallback", "backend", "_backend", "_backend_was_auto"};

// Returns the value at a name such as "a.b", or null when the member is absent or a JSON null.
const JsonValue* value_at(Fields& fields, std::string_view name) {
  const size_t dot = name.find('.');
  const JsonValue* holder = fields.member(name.substr(0, dot));
  if (dot == std::string_view::npos || !holder) return holder;
  if (!holder->is_object()) fields.fail_type(name.substr(0, dot), *holder, "an object");
  const JsonValue* value = holder->find(name.substr(dot + 1));
  return value && !value->is_null() ? value : nullptr;
}

// Refuses unknown members of `structured_outputs`: each may have been meant as a constraint.
void check_structured_outputs(Fields& fields) {
  const JsonValue* value = fields.member("structured_outputs");
  if (!value || !value->is_object()) return;
  for (const auto& [member, content] : value->as_object().members()) {
    const std::string name = "structured_outputs." + member;
    const bool known = std::find(std::begin(kHints), std::end(kHints), member) != std::end(kHints) ||
                       std::any_of(std::begin(kFields), std::end(kFields),
                                   [&](const ConstraintField& field) { return field.name == name; });
    if (!known && !content.is_null()) fields.fail(unsupported(name.substr(0, 80), content, ""));
  }
}

// Returns what is read of the object of that name. Members of structured_outputs are judged above.
constexpr std::string_view members_of(std::string_view name) {
  if (name == "response_format" || name == "output_format") return kFormatMembers;
  if (name == "text") return kTextMembers;
  return name == "output_config" ? kOutputMembers : "any";
}

// The first parts of their names, each once; of the rest, the array's end holds none.
constexpr auto kMembers = [] {
  std::pair<std::array<Field, std::size(kFields)>, size_t> members{};
  auto& [list, count] = members;
  for (const ConstraintField& field : kFields) {
    const std::string_view name = field.name.substr(0, field.name.find('.'));
    bool known = false;
    for (size_t i = 0; i < count; ++i) known = known || list[i].name == name;
    const bool whole = name == field.name;
    const Field member{name, whole ? Takes::any(members_of(name)) : Takes::object(members_of(name)),
                       !whole                ? "docs/structured-output.md lists its members"
                       : field.takes.empty() ? "refused"
                                             : field.takes};
    if (!known) list[count++] = member;
  }
  return members;
}();

void read_whitespace(Fields& fields, AnswerRules& rules) {
  const auto word = fields.word(kWhitespaceFields["whitespace"]);
  if (!word) return;
  rules.whitespace = *word == "none"      ? Whitespace::none
                     : *word == "default" ? Whitespace::normal
                                          : Whitespace::flexible;
}

void read_order(Fields& fields, AnswerRules& rules) {
  const auto word = fields.word(kWhitespaceFields["member_order"]);
  if (word) rules.order = *word == "any" ? MemberOrder::any : MemberOrder::schema;
}

}  // namespace

constinit const FieldGroup kConstraintFields{"constraints", std::span(kMembers.first).first(kMembers.second)};

std::span<const ConstraintField> constraint_fields() { return kFields; }

std::string constraint_fields_table() {
  std::string text = "| member | of | what it takes |\n|---|---|---|\n";
  for (const ConstraintField& field : kFields) {
    text += fmt::format("| `{}` | {} | {} |\n", field.name, field.api,
                        field.takes.empty() ? "refused by name" : field.takes);
  }
  return text;
}

AnswerRules read_constraint(Fields& fields) {
  AnswerRules rules;
  check_structured_outputs(fields);
  for (const ConstraintField& field : kFields) {
    const JsonValue* value = value_at(fields, field.name);
    if (!value || fields.failed()) continue;
    AnswerRules one;
    field.read(fields, *value, field.name, one);
    if (one.whitespace) rules.whitespace = one.whitespace;
    if (one.any_text()) continue;
    if (!rules.any_text()) {
      fields.fail(
          bad_value(fmt::format("'{}' and '{}' both say what the answer has to be; wanted one of them",
                                rules.param, field.name),
                    std::string(field.name), "unsupported_parameter"));
    }
    one.whitespace = rules.whitespace;
    one.param = field.name;
    rules = std::move(one);
  }
  read_whitespace(fields, rules);
  read_order(fields, rules);
  return rules;
}

std::optional<ApiError> refuse_tools(const JsonValue& body) {
  const Fields fields(body);
  const JsonValue* tools = fields.find(kToolFields["tools"]);
  const JsonValue* choice = fields.find(kToolFields["tool_choice"]);
  if (choice && is_word(*choice, "none")) return std::nullopt;
  if (tools && !is_empty_list(*tools)) return unsupported("tools", *tools, " on this route");
  if (choice && !is_word(*choice, "auto")) return unsupported("tool_choice", *choice, " on this route");
  return std::nullopt;
}

}  // namespace fulmar
