// Reading what the answer must be, and compiling it.
#include "server/answer_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_values.h"
#include "net/json.h"

namespace fulmar {
namespace {

constexpr size_t kLongestName = 64;
constexpr size_t kMostTools = 128;

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), fits);
}

const std::string* text_member(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

// What the model is told of a function.
std::string description_of(const JsonValue& function) {
  std::vector<JsonObject::Member> told;
  for (const auto& [name, value] : function.as_object().members()) {
    if (name != "type" && name != "strict") told.emplace_back(name, value);
  }
  return json_text(JsonValue(JsonObject(std::move(told))));
}

void read_tool(Fields& fields, const JsonValue& tool, ToolForm form, std::string place, ToolUse& use) {
  const std::string* type = text_member(tool, "type");
  const bool nested = form == ToolForm::nested;
  const JsonValue* function = nested ? tool.find("function") : &tool;
  if (!type || *type != "function" || !function || !function->is_object()) {
    return fields.fail(bad_value(fmt::format("'{}' is no {{\"type\":\"function\",{}}}", place,
                                             nested ? "\"function\":{...}" : "\"name\":..."),
                                 "tools"));
  }
  if (nested) place += ".function";
  const std::string* name = text_member(*function, "name");
  if (!name || !is_name(*name)) {
    const JsonValue* found = function->find("name");
    return fields.fail(bad_value(fmt::format("'{}.name' is {}; wanted 1 to {} of A-Z a-z 0-9 _ -", place,
                                             found ? describe(*found) : "absent", kLongestName),
                                 "tools"));
  }
  const JsonValue* parameters = function->find("parameters");
  if (parameters && !parameters->is_null() && !parameters->is_object()) {
    return fields.fail_type(place + ".parameters", *parameters, "an object");
  }
  use.tools.push_back({*name, parameters ? *parameters : JsonValue()});
  use.descriptions.push_back(description_of(*function));
}

// `tool_choice` as an object names one function: the others may not be called then.
void choose_named(Fields& fields, const JsonValue& choice, ToolUse& use) {
  const JsonValue* function = choice.find("function");
  const std::string* name = text_member(function ? *function : choice, "name");
  if (!name) return fields.fail_type("tool_choice", choice, "an object with the name of a function");
  std::erase_if(use.tools, [&](const CallableTool& tool) { return tool.name != *name; });
  if (use.tools.empty()) {
    return fields.fail(
        bad_value(fmt::format("'tool_choice' names '{}', which is none of 'tools'", *name), "tool_choice"));
  }
  use.choice = ToolUse::Choice::must;
}

void read_choice(Fields& fields, ToolUse& use) {
  using Choice = ToolUse::Choice;
  const JsonValue* choice = fields.find("tool_choice");
  use.choice = use.tools.empty() ? Choice::none : Choice::may;
  if (!choice) return;
  if (choice->is_object()) return choose_named(fields, *choice, use);
  const std::string word = choice->is_string() ? choice->as_string() : std::string();
  if (word == "none") {
    use.choice = Choice::none;
  } else if (word == "required") {
    if (use.tools.empty()) {
      return fields.fail(bad_value("'tool_choice' is \"required\", but there are no 'tools'", "tool_choice"));
    }
    use.choice = Choice::must;
  } else if (word != "auto") {
    fields.fail_type("tool_choice", *choice, "\"none\", \"auto\", \"required\" or a function");
  }
}

class WalkMask : public TokenMask {
 public:
  explicit WalkMask(ConstraintWalk walk) : walk_(std::move(walk)) {}
  std::span<const uint64_t> allowed() override { return walk_.allowed(); }
  void accept(int32_t token) override { walk_.accept(token); }
  bool complete() const override { return walk_.complete(); }

 private:
  ConstraintWalk walk_;
};

Result<std::shared_ptr<const Grammar>> form_of(AnswerStart start, const AnswerRules& rules,
                                               const CallMarks& marks) {
  if (!rules.calls.empty()) return tool_call_form(start, rules.calls, rules.several_calls, marks);
  return rules.schema ? json_schema_form(start, *rules.schema) : json_object_form(start);
}

std::string key_of(AnswerStart start, const AnswerRules& rules) {
  std::string key = fmt::format("{}{}", static_cast<int>(start), rules.several_calls ? '+' : '1');
  if (rules.schema) key += json_text(*rules.schema);
  for (const CallableTool& tool : rules.calls) key += "\n" + tool.name + json_text(tool.parameters);
  return key;
}

}  // namespace

ToolUse read_tools(Fields& fields, ToolForm form) {
  ToolUse use;
  use.several = fields.boolean("parallel_tool_calls").value_or(true);
  if (const JsonValue* tools = fields.find("tools")) {
    if (!tools->is_array() || tools->as_array().size() > kMostTools) {
      fields.fail_type("tools", *tools, fmt::format("an array of at most {} functions", kMostTools));
      return use;
    }
    for (size_t i = 0; i < tools->as_array().size() && !fields.failed(); ++i) {
      read_tool(fields, tools->as_array()[i], form, fmt::format("tools[{}]", i), use);
    }
  }
  read_choice(fields, use);
  if (use.choice == ToolUse::Choice::none) {
    use.tools.clear();
    use.descriptions.clear();
  }
  return use;
}

AnswerRules read_format(Fields& fields, const JsonObject* format, std::string_view name) {
  AnswerRules rules;
  if (!format) return rules;
  const std::string param(name);
  const JsonValue* type = format->find("type");
  const std::string word = type && type->is_string() ? type->as_string() : std::string();
  if (word == "json_object") {
    rules.json_object = true;
  } else if (word == "json_schema") {
    const JsonValue* inner = format->find("json_schema");
    const JsonValue* schema = inner ? inner->find("schema") : format->find("schema");
    if (schema && (schema->is_object() || schema->is_bool())) {
      rules.schema = *schema;
    } else {
      fields.fail(bad_value(fmt::format("'{}' has no schema; wanted {{\"type\":\"json_schema\",...,"
                                        "\"schema\":{{...}}}}",
                                        name),
                            param));
    }
  } else if (word != "text") {
    fields.fail(bad_value(fmt::format("'{}.type' is {}; wanted \"text\", \"json_object\" or \"json_schema\"",
                                      name, type ? describe(*type) : "absent"),
                          param, "unsupported_parameter"));
  }
  return rules;
}

AnswerRules read_answer_rules(Fields& fields, const ToolUse& tools) {
  AnswerRules rules = read_format(fields, fields.object("response_format"), "response_format");
  if (!rules.any_text() && tools.choice != ToolUse::Choice::none) {
    fields.fail(bad_value("'response_format' and 'tools' cannot be combined", "response_format",
                          "unsupported_parameter"));
  }
  if (tools.choice == ToolUse::Choice::must) {
    rules.calls = tools.tools;
    rules.several_calls = tools.several;
  }
  return rules;
}

AnswerStart answer_start(ThinkMode think, const PromptTemplate& chosen) {
  if (chosen.suffix(think).ends_with("</think")) return AnswerStart::open_tag;
  return is_thinking(think) ? AnswerStart::open_think : AnswerStart::plain;
}

Result<std::shared_ptr<const TokenTree>> AnswerConstraints::tree_of(const ServedModelPtr& model) {
  std::erase_if(trees_, [](const Tree& tree) { return tree.model.expired(); });
  for (const Tree& tree : trees_) {
    if (tree.model.lock() == model) return tree.tree;
  }
  FULMAR_ASSIGN(TokenTree tree, TokenTree::make(*model->tokenizer));
  trees_.push_back({model, std::make_shared<const TokenTree>(std::move(tree))});
  return trees_.back().tree;
}

Result<std::shared_ptr<Constraint>> AnswerConstraints::find(const ServedModelPtr& named, AnswerStart start,
                                                            const AnswerRules& rules) {
  // States of one model share what belongs to its vocabulary.
  const ServedModelPtr plain = named->plain.lock();
  const ServedModelPtr& model = plain ? plain : named;
  const std::string key = key_of(start, rules);
  std::lock_guard lock(mutex_);
  std::erase_if(entries_,
                [](const Entry& entry) { return entry.model.expired() || entry.constraint->full(); });
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.key == key && entry.model.lock() == model;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().constraint;
  }
  FULMAR_ASSIGN(auto tree, tree_of(model));
  FULMAR_ASSIGN(auto grammar, form_of(start, rules, model->prompt_template->calls));
  entries_.push_front(
      {model, key, std::make_shared<Constraint>(Automaton(std::move(grammar)), std::move(tree))});
  if (entries_.size() > kMost) entries_.pop_back();
  return entries_.front().constraint;
}

std::shared_ptr<TokenMask> make_mask(std::shared_ptr<Constraint> constraint, const Tokenizer& tokenizer,
                                     std::optional<int32_t> stop) {
  return std::make_shared<WalkMask>(ConstraintWalk(std::move(constraint), tokenizer, stop));
}

}  // namespace fulmar
