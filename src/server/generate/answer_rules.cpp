// Reads the rules for an answer and compiles them to a constraint.
#include "server/generate/answer_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

constexpr size_t kMostTools = 128;

const std::string* text_member(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

// Returns the member's value, or null when it is absent or a JSON null.
const JsonValue* present_member(const JsonObject& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value && !value->is_null() ? value : nullptr;
}

bool read_strict(Fields& fields, const JsonObject& object, const std::string& place) {
  const JsonValue* strict = present_member(object, "strict");
  const auto told = strict ? lenient_bool(*strict) : false;
  if (!told) fields.fail_type(place, *strict, "true or false");
  return told.value_or(false);
}

// The tools of a request, before the choice among them.
struct OfferedTools {
  std::vector<CallableTool> tools;
  std::vector<std::string> descriptions;  // of each
  std::vector<std::string> foreign;       // types that this server does not run
};

// Returns the JSON that describes a function to the model: its members except those that only this server
// uses.
std::string description_of(const JsonValue& function) {
  std::vector<JsonObject::Member> told;
  for (const auto& [name, value] : function.as_object().members()) {
    if (name != "type" && name != "strict") told.emplace_back(name, value);
  }
  return json_text(JsonValue(JsonObject(std::move(told))));
}

// Tells whether a tool is of a type that this server does not run.
bool is_foreign(const JsonValue& tool) {
  const std::string* type = text_member(tool, "type");
  return type && *type != "function";
}

void read_tool(Fields& fields, const JsonValue& tool, ToolForm form, std::string place,
               OfferedTools& offered) {
  if (is_foreign(tool)) {
    offered.foreign.push_back(*text_member(tool, "type"));
    return;
  }
  const bool nested = form == ToolForm::nested;
  const JsonValue* function = nested ? tool.find("function") : &tool;
  if (!text_member(tool, "type") || !function || !function->is_object()) {
    return fields.fail(bad_value(fmt::format("'{}' is no {{\"type\":\"function\",{}}}", place,
                                             nested ? "\"function\":{...}" : "\"name\":..."),
                                 "tools"));
  }
  if (nested) place += ".function";
  const std::string* name = text_member(*function, "name");
  if (!name || !is_function_name(*name)) {
    const JsonValue* found = function->find("name");
    return fields.fail(bad_value(fmt::format("'{}.name' is {}; wanted 1 to {} of A-Z a-z 0-9 _ -", place,
                                             found ? describe(*found) : "absent", kLongestFunctionName),
                                 "tools"));
  }
  const auto same = [&](const CallableTool& one) { return one.name == *name; };
  if (std::any_of(offered.tools.begin(), offered.tools.end(), same)) {
    return fields.fail(bad_value(
        fmt::format("'{}.name' is '{}', as an earlier function's is; wanted each name once", place, *name),
        "tools"));
  }
  const JsonValue* parameters = function->find("parameters");
  if (parameters && !parameters->is_null() && !parameters->is_object()) {
    return fields.fail_type(place + ".parameters", *parameters, "an object");
  }
  const bool is_strict = read_strict(fields, function->as_object(), place + ".strict");
  offered.tools.push_back({*name, parameters ? *parameters : JsonValue(), is_strict});
  offered.descriptions.push_back(description_of(*function));
}

OfferedTools read_offered(Fields& fields, ToolForm form) {
  OfferedTools offered;
  const JsonValue* tools = fields.find(kToolFields["tools"]);
  if (!tools) return offered;
  if (!tools->is_array() || tools->as_array().size() > kMostTools) {
    fields.fail_type("tools", *tools, fmt::format("an array of at most {} functions", kMostTools));
    return offered;
  }
  for (size_t i = 0; i < tools->as_array().size() && !fields.failed(); ++i) {
    read_tool(fields, tools->as_array()[i], form, fmt::format("tools[{}]", i), offered);
  }
  return offered;
}

// Keeps the tools that `wanted` holds for; with `descriptions`, tells the model of those alone.
template <class Wanted>
void keep(OfferedTools& offered, bool descriptions, const Wanted& wanted) {
  OfferedTools kept;
  for (size_t i = 0; i < offered.tools.size(); ++i) {
    if (!wanted(offered.tools[i].name)) continue;
    kept.tools.push_back(std::move(offered.tools[i]));
    kept.descriptions.push_back(offered.descriptions[i]);
  }
  offered.tools = std::move(kept.tools);
  if (descriptions) offered.descriptions = std::move(kept.descriptions);
}

Error not_offered(std::string_view name) {
  return {ErrorKind::invalid, fmt::format("'tool_choice' names '{}', which is none of 'tools'", name)};
}

// Returns the name in {"type":"function","name":...} or {"type":"function","function":{"name":...}}.
const std::string* named_function(const JsonValue& choice) {
  const JsonValue* function = choice.find("function");
  return text_member(function ? *function : choice, "name");
}

// Reads a `tool_choice` that is an object and names one function: only that one may be called then.
void choose_named(Fields& fields, const JsonValue& choice, OfferedTools& offered, ToolUse& use) {
  if (is_foreign(choice)) {
    return fields.fail(
        bad_value(fmt::format("'tool_choice' wants a tool of type '{}', which this server does not "
                              "run; wanted a function",
                              *text_member(choice, "type")),
                  "tool_choice", "unsupported_parameter"));
  }
  const std::string* name = named_function(choice);
  if (!name) return fields.fail_type("tool_choice", choice, "an object with the name of a function");
  keep(offered, false, [&](const std::string& one) { return one == *name; });
  if (offered.tools.empty()) return fields.fail(bad_value(not_offered(*name).text, "tool_choice"));
  use.choice = ToolUse::Choice::must;
}

void choose_required(Fields& fields, const OfferedTools& offered, ToolUse& use) {
  use.choice = ToolUse::Choice::must;
  if (!offered.tools.empty()) return;
  const std::string found = offered.foreign.empty()
                                ? std::string("there are no 'tools'")
                                : fmt::format("'tools' holds only types that this server does not run: {}",
                                              fmt::join(offered.foreign, ", "));
  fields.fail(bad_value(fmt::format("'tool_choice' is \"required\", but {}", found), "tool_choice"));
}

// Reads {"type":"allowed_tools","mode":"auto"|"required","tools":[...]}; mode and tools may also lie in a
// member "allowed_tools".
void choose_allowed(Fields& fields, const JsonValue& choice, OfferedTools& offered, ToolUse& use) {
  const JsonValue* inner = choice.find("allowed_tools");
  const JsonValue& allowed = inner && inner->is_object() ? *inner : choice;
  const std::string* mode = text_member(allowed, "mode");
  const JsonValue* list = allowed.find("tools");
  if (!mode || (*mode != "auto" && *mode != "required") || !list || !list->is_array()) {
    return fields.fail(
        bad_value("'tool_choice' of type \"allowed_tools\" needs a 'mode' of \"auto\" or \"required\" and "
                  "an array 'tools'",
                  "tool_choice"));
  }
  std::vector<std::string_view> names;
  for (const JsonValue& tool : list->as_array()) {
    if (is_foreign(tool)) continue;
    const std::string* name = named_function(tool);
    if (!name) return fields.fail_type("tool_choice.tools", tool, "objects with the name of a function");
    const auto is_named = [&](const CallableTool& one) { return one.name == *name; };
    if (std::none_of(offered.tools.begin(), offered.tools.end(), is_named)) {
      return fields.fail(bad_value(not_offered(*name).text, "tool_choice"));
    }
    names.push_back(*name);
  }
  keep(offered, true,
       [&](const std::string& one) { return std::find(names.begin(), names.end(), one) != names.end(); });
  use.choice = offered.tools.empty() ? ToolUse::Choice::none : ToolUse::Choice::may;
  if (*mode == "required") choose_required(fields, offered, use);
}

void read_choice(Fields& fields, OfferedTools& offered, ToolUse& use) {
  using Choice = ToolUse::Choice;
  const JsonValue* choice = fields.find(kToolFields["tool_choice"]);
  use.choice = offered.tools.empty() ? Choice::none : Choice::may;
  if (!choice) return;
  if (choice->is_object()) {
    const std::string* type = text_member(*choice, "type");
    if (type && *type == "allowed_tools") return choose_allowed(fields, *choice, offered, use);
    return choose_named(fields, *choice, offered, use);
  }
  const std::string word = choice->is_string() ? choice->as_string() : std::string();
  if (word == "none") {
    use.choice = Choice::none;
  } else if (word == "required") {
    choose_required(fields, offered, use);
  } else if (word != "auto") {
    fields.fail_type("tool_choice", *choice, "\"none\", \"auto\", \"required\", a function or allowed tools");
  }
}

class WalkMask : public TokenMask {
 public:
  explicit WalkMask(ConstraintWalk walk) : walk_(std::move(walk)) {}
  std::span<const uint64_t> allowed() override { return walk_.allowed(); }
  bool ready() const override { return walk_.ready(); }
  size_t prepare() override { return walk_.prepare(); }
  std::optional<int32_t> forced() override { return walk_.forced(); }
  void accept(int32_t token) override { walk_.accept(token); }
  bool complete() const override { return walk_.complete(); }
  bool heeds(int32_t stop) const override { return walk_.heeds(stop); }
  std::unique_ptr<TokenMask> fork() const override { return std::make_unique<WalkMask>(*this); }

 private:
  ConstraintWalk walk_;
};

using Form = Result<std::shared_ptr<const Grammar>>;

// Compiles the form of a text that is not JSON. A grammar that contains "::=" is read as GBNF, any other as
// Lark.
Form plain_form(AnswerStart start, const AnswerRules& rules, const FormOptions& options) {
  if (rules.regex) return regex_form(start, *rules.regex, options);
  if (!rules.grammar) return choice_form(start, rules.choice, options);
  const bool is_gbnf = rules.grammar->find("::=") != std::string::npos;
  return is_gbnf ? gbnf_form(start, *rules.grammar, options) : lark_form(start, *rules.grammar, options);
}

Form json_form(AnswerStart start, const AnswerRules& rules, const CallMarks& marks,
               const FormOptions& options) {
  const JsonValue* schema = rules.schema ? &*rules.schema : nullptr;
  if (!rules.calls.empty() && rules.is_json()) {
    return schema_or_calls_form(start, schema, rules.calls, rules.several_calls, marks, options);
  }
  if (rules.or_text) return text_or_calls_form(start, rules.calls, rules.several_calls, marks, options);
  if (!rules.calls.empty()) return tool_call_form(start, rules.calls, rules.several_calls, marks, options);
  return schema ? json_schema_form(start, *schema, options) : json_object_form(start, options);
}

// Compiles the form of an answer. Errors begin with the member of the request that asks for it.
Form form_of(AnswerStart start, const AnswerRules& rules, const CallMarks& marks,
             const FormOptions& options) {
  Form made = rules.is_plain() ? plain_form(start, rules, options) : json_form(start, rules, marks, options);
  if (made) return made;
  return Error{made.error().kind, fmt::format("'{}': {}", rules.param, made.error().text)};
}

std::string key_of(AnswerStart start, const AnswerRules& rules, const FormOptions& options) {
  std::string key = fmt::format("{}{}{}{}", static_cast<int>(start), rules.several_calls ? '+' : '1',
                                rules.json_object ? 'o' : ' ', rules.or_text ? 't' : ' ');
  key += fmt::format("{}{} ", static_cast<int>(options.whitespace), static_cast<int>(options.order));
  if (rules.schema) key += (rules.strict ? '!' : '?') + json_text(*rules.schema);
  if (rules.regex) key += "r" + *rules.regex;
  if (rules.grammar) key += "g" + *rules.grammar;
  for (const std::string& text : rules.choice) key += json_quoted(text);
  for (const CallableTool& tool : rules.calls) {
    key += fmt::format("\n{}{}{}", tool.name, tool.strict ? '!' : '?', json_text(tool.parameters));
  }
  return key;
}

// The schema of a format, which lies where its type has it.
struct FormatSchema {
  const JsonValue* schema = nullptr;
  bool strict = false;
};

// Faults: none where the type needs one, no schema, and one in a place where the type has none.
FormatSchema schema_in(Fields& fields, const JsonObject& format, const std::string& type,
                       std::string_view name) {
  const JsonValue *inner = present_member(format, "json_schema"), *beside = present_member(format, "schema");
  const bool nested = inner && type == "json_schema";
  if (nested && !inner->is_object())
    fields.fail_type(fmt::format("{}.json_schema", name), *inner, "an object");
  if (fields.failed()) return {};
  const JsonObject& holder = nested ? inner->as_object() : format;
  const JsonValue* schema = type == "text" ? nullptr : present_member(holder, "schema");
  const std::string place = fmt::format("{}.{}schema", name, nested ? "json_schema." : "");
  if ((inner && !nested) || (beside && beside != schema)) {
    fields.fail(bad_value(fmt::format("'{}.{}' has no meaning in a format of type \"{}\"{}", name,
                                      beside && beside != schema ? "schema" : "json_schema", type,
                                      nested ? " with 'json_schema'" : ""),
                          std::string(name), "unsupported_parameter"));
  } else if (type == "json_schema" && !schema) {
    fields.fail(bad_value(
        fmt::format("'{}' has no schema; wanted {{\"type\":\"json_schema\",...,\"schema\":{{...}}}}", name),
        std::string(name)));
  } else if (schema && !schema->is_object() && !(type == "json_schema" && schema->is_bool())) {
    fields.fail_type(place, *schema, "a schema");
  }
  return {schema,
          read_strict(fields, holder, fmt::format("{}.{}strict", name, nested ? "json_schema." : ""))};
}

}  // namespace

ToolUse read_tools(Fields& fields, ToolForm form) {
  ToolUse use;
  use.several = fields.flag(kToolFields["parallel_tool_calls"]);
  OfferedTools offered = read_offered(fields, form);
  if (fields.failed()) return use;
  read_choice(fields, offered, use);
  if (use.choice == ToolUse::Choice::none) return use;
  use.tools = std::move(offered.tools);
  use.descriptions = std::move(offered.descriptions);
  return use;
}

ExpectedCalls expected_calls(const ToolUse& tools, const CallMarks& marks) {
  ExpectedCalls expected{
      .several = tools.several, .required = tools.choice == ToolUse::Choice::must, .marks = marks};
  for (const CallableTool& tool : tools.tools) expected.names.push_back(tool.name);
  return expected;
}

AnswerRules read_format(Fields& fields, const JsonObject* format, std::string_view name) {
  AnswerRules rules;
  if (!format) return rules;
  const JsonValue* type = format->find("type");
  const std::string word = type && type->is_string() ? type->as_string() : std::string();
  if (word != "text" && word != "json_object" && word != "json_schema") {
    fields.fail(bad_value(fmt::format("'{}.type' is {}; wanted \"text\", \"json_object\" or \"json_schema\"",
                                      name, type ? describe(*type) : "absent"),
                          std::string(name), "unsupported_parameter"));
    return rules;
  }
  const FormatSchema found = schema_in(fields, *format, word, name);
  rules.strict = found.strict || word == "json_object";
  rules.json_object = word == "json_object" && !found.schema;
  if (found.schema) rules.schema = *found.schema;
  return rules;
}

void add_calls(Fields& fields, AnswerRules& rules, const ToolUse& tools) {
  if (tools.choice == ToolUse::Choice::none || fields.failed()) return;
  const bool must = tools.choice == ToolUse::Choice::must;
  if (rules.is_plain()) {
    return fields.fail(bad_value(
        fmt::format("'{}' and 'tools' both say what the answer has to be; wanted one of them", rules.param),
        rules.param, "unsupported_parameter"));
  }
  if (must) {
    rules = AnswerRules{.whitespace = rules.whitespace, .order = rules.order};
  }
  rules.or_text = !must && !rules.is_json();
  rules.param = "tools";
  rules.calls = tools.tools;
  rules.several_calls = tools.several;
}

AnswerStart answer_start(ThinkMode think, const PromptTemplate& chosen) {
  if (chosen.suffix(think).ends_with("</think")) return AnswerStart::open_tag;
  return is_thinking(think) ? AnswerStart::open_think : AnswerStart::plain;
}

Result<std::shared_ptr<const TokenTree>> AnswerConstraints::tree_of(const ServedModelPtr& model) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(trees_, [](const Tree& tree) { return tree.model.expired(); });
    for (const Tree& tree : trees_) {
      if (tree.model.lock() == model) return tree.tree;
    }
  }
  FULMAR_ASSIGN(TokenTree made, TokenTree::make(*model->tokenizer));
  auto tree = std::make_shared<const TokenTree>(std::move(made));
  std::lock_guard lock(mutex_);
  trees_.push_back({model, tree});
  return tree;
}

Result<CompiledRules> AnswerConstraints::find(const std::string& owner, const ServedModelPtr& named,
                                              AnswerStart start, const AnswerRules& rules,
                                              const WrittenJson& defaults) {
  // States of one model share what belongs to its vocabulary.
  const ServedModelPtr plain = named->plain.lock();
  const ServedModelPtr& model = plain ? plain : named;
  Loosened loosened;
  const FormOptions options{.whitespace = rules.whitespace.value_or(defaults.whitespace),
                            .order = rules.order.value_or(defaults.order),
                            .unlisted = !rules.strict,
                            .strict = rules.strict,
                            .loosened = &loosened};
  std::string key = key_of(start, rules, options);
  if (auto compiled = compiled_.find(owner, model, key)) return *compiled;
  FULMAR_ASSIGN(auto tree, tree_of(model));
  FULMAR_ASSIGN(auto grammar, form_of(start, rules, model->prompt_template->calls, options));
  const CompiledRules compiled{std::make_shared<Constraint>(Automaton(std::move(grammar)), std::move(tree)),
                               loosened.texts()};
  compiled_.keep(owner, model, std::move(key), compiled);
  return compiled;
}

std::shared_ptr<TokenMask> make_mask(std::shared_ptr<Constraint> constraint, const Tokenizer& tokenizer,
                                     std::optional<int32_t> stop) {
  return std::make_shared<WalkMask>(ConstraintWalk(std::move(constraint), tokenizer, stop));
}

}  // namespace fulmar
