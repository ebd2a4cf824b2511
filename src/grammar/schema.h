// Compiles JSON Schema to grammar rules. All that is written is valid under the schema by construction; where
// it admits several forms, fewer may be written (in the schema's order, without unlisted members).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/grammar.h"
#include "grammar/json_rules.h"
#include "grammar/number_rules.h"
#include "grammar/schema_document.h"
#include "grammar/schema_expansion.h"
#include "grammar/schema_members.h"
#include "grammar/schema_options.h"
#include "grammar/schema_shape.h"
#include "grammar/schema_texts.h"

namespace fulmar {

// How deep values may nest about which the schema says nothing.
inline constexpr int kFreeDepth = 8;

// Handles the keywords that docs/structured-output.md lists. Each rule stands for the set of schemas that one
// value has to fit. The rules are compiled one after the other from a list of open ones, so neither nesting
// nor references take stack, and a set that refers back to itself finds its rule.
class SchemaCompiler {
 public:
  // Prepares to compile. All arguments must outlive the compiler; `document` is where $ref looks.
  SchemaCompiler(const JsonValue& document, Grammar& grammar, JsonRules& rules, Budget& budget,
                 SchemaOptions options = {});

  // Compiles the values that the whole document describes. Errors: unsupported, with the keyword and its
  // place, or what is too large; invalid for schemas that break JSON Schema's own rules or admit nothing.
  Result<Rule> compile();
  // Returns the first place that turned out to admit nothing, with the keywords that say something there;
  // empty: none did.
  const std::string& emptied() const { return emptied_; }

 private:
  struct Open {
    Demands demands;
    Rule rule;
  };
  struct Member {
    std::string_view name;
    Rule value;
    bool required = false;
  };
  // Values that are listed one by one; not complete: others fit as well.
  struct Listed {
    bool complete = true;
    std::vector<const JsonValue*> values;
  };
  // Members that are not listed: a rule of a name and its value; nothing: none may be added.
  struct Unlisted {
    std::optional<Rule> member;
  };

  // Returns the rule of values that fit the demands; puts new demands into open_, to be compiled.
  Rule rule_of(Demands demands);
  // Compiles the values that fit the demands; nothing: none does.
  Result<std::optional<Place>> body_of(const Demands& demands);
  static std::optional<Shape::Described> take_formats(const Demands& demands, std::vector<Shape>& shapes);
  Status give_up(const Shape::Described& format, const Demands& demands);
  Result<std::optional<Place>> loosened_body(const Demands& demands);
  std::optional<Demands> shared_rule(const Demands& demands) const;
  Result<const JsonValue::Array*> plain_alternatives(const Demands& demands);
  Result<std::optional<Place>> alternatives(const JsonValue::Array& list);
  Result<std::optional<Place>> any_of(const std::vector<Shape>& shapes);
  Status add_values(const Shape& shape, std::vector<std::string>& texts, std::vector<Place>& choices);
  Status add_kinds(const Shape& shape, std::vector<Place>& choices);
  Kinds kinds_of(const Shape& shape) const;
  Result<std::optional<Place>> of_kind(size_t kind, const Shape& shape);
  Place value(const JsonValue& value, Place next);

  Result<std::optional<Place>> string_body(const Shape& shape);
  Result<std::optional<Place>> number_body(const Shape& shape);
  Result<std::optional<Place>> numbers_in(const Shape& shape, const NumberRange& range);
  Status check_excluded(size_t kind, const Shape& shape);

  Result<std::optional<Place>> array_body(const Shape& shape);
  Result<std::optional<Place>> counted_items(const SchemaElements& elements, size_t listed, int64_t least,
                                             int64_t most);
  Result<std::optional<Place>> containing(const Shape& shape, const SchemaElements& elements, int64_t most);
  Result<Listed> values_in(const std::vector<Shape>& shapes);
  Result<Listed> listed_values(const Demands& demands);
  Result<std::optional<Place>> unique_items(const Shape& shape, const SchemaElements& elements, int64_t most);

  Result<std::optional<Place>> object_body(const Shape& shape);
  Result<TextAutomaton> names_of(const std::vector<Shape>& shapes);
  Result<std::optional<TextAutomaton>> admitted_names(const Shape& shape);
  Result<std::vector<Member>> listed_members(const Shape& shape, const SchemaMembers& scopes,
                                             const std::optional<TextAutomaton>& admitted,
                                             std::vector<std::string_view>& never, bool& possible);
  // Names that match the same patterns, and those patterns.
  struct NameClass {
    std::optional<TextAutomaton> names;  // nothing: all that are not listed
    std::vector<const SchemaMembers::Scope::Matching*> matched;
  };
  Result<std::vector<NameClass>> name_classes(const SchemaMembers& scopes,
                                              const std::optional<TextAutomaton>& admitted);
  Result<std::vector<Place>> unlisted_members(const Shape& shape, const SchemaMembers& scopes,
                                              const std::optional<TextAutomaton>& admitted,
                                              const std::vector<std::string_view>& listed);
  Result<std::optional<Place>> members_in_order(const std::vector<Member>& members,
                                                const std::optional<Rule>& unlisted, const Shape& shape);
  Result<std::optional<Place>> members_in_any_order(const std::vector<Member>& members,
                                                    const std::optional<Rule>& unlisted, const Shape& shape);
  std::vector<Place> ends_of_object(const std::optional<Rule>& unlisted, int64_t written, int64_t least,
                                    int64_t most, Place close);
  Place other_name(const std::vector<std::string_view>& names, Place next);

  Grammar& grammar_;
  JsonRules& rules_;
  Budget& budget_;
  const SchemaOptions options_;
  SchemaDocument document_;
  SchemaReader reader_;
  SchemaTexts texts_;
  SchemaExpansion expansion_;
  NumberRules numbers_;
  std::map<Demands, Rule> known_;  // by sorted demands
  std::vector<Open> open_;
  std::string emptied_;
  std::map<std::string, std::optional<Place>> scalars_;  // strings and numbers, by what is asked of them
};

}  // namespace fulmar
