// JSON Schema to grammar rules. What it writes is valid under the schema by construction; where a schema
// admits several forms it may write fewer (no properties beside those listed, no white space, the order of
// the schema).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/grammar.h"
#include "grammar/json_rules.h"
#include "grammar/schema_apart.h"
#include "grammar/text_automaton.h"
#include "net/json_value.h"

namespace fulmar {

// Nesting of values of which the schema says nothing.
inline constexpr int kFreeDepth = 8;
// Alternatives or optional properties of which one text may hold any: each is a reading to follow.
inline constexpr size_t kMaxChoices = 1000;

// What becomes of what cannot be kept. Schemas that break JSON Schema's own rules are refused either way.
enum class Strictness : uint8_t {
  strict,   // refused by name
  lenient,  // kept as far as it can be: such a keyword asks for nothing
};

// A place of the document, for error texts: a JSON pointer by its parts.
struct SchemaPlace {
  const SchemaPlace* up = nullptr;
  std::string_view name;
  size_t depth = 0;  // at most kDeepestPlace: text_of() shows nothing of what lies below
};
inline constexpr size_t kDeepestPlace = 64;
std::string text_of(const SchemaPlace& where);

// Handles the keywords listed in docs/api.md. Schemas are compiled one after the other from a list of those
// that are open, so that neither nesting nor references cost stack.
class SchemaCompiler {
 public:
  // All must outlive the compiler; `document` is what $ref looks into.
  SchemaCompiler(const JsonValue& document, Grammar& grammar, JsonRules& rules, Budget& budget,
                 Strictness strictness = Strictness::strict)
      : document_(document),
        grammar_(grammar),
        rules_(rules),
        budget_(budget),
        lenient_(strictness == Strictness::lenient),
        apart_(document, budget) {}

  // The values that the whole document describes. Errors: unsupported, naming the keyword and its place, or
  // what is too large; invalid for schemas that break JSON Schema's own rules or admit nothing.
  Result<Rule> compile();

 private:
  using Where = SchemaPlace;
  using Keywords = std::initializer_list<std::string_view>;
  struct Open {
    const JsonValue* schema;
    const Where* where;
    Rule rule;
  };
  struct Property {
    std::string_view name;
    Rule value;
    bool required = false;
  };
  struct Numbers;
  struct Names;

  // The rule of a schema that is compiled later, or has been.
  Rule rule_of(const JsonValue& schema, const Where& where);
  const Where& below(const Where& up, std::string_view name);
  const Where& below(const Where& up, size_t index);
  Result<Place> body_of(const JsonValue& schema, const Where& where);
  Result<Place> referred(const JsonValue& schema, const JsonValue& reference, const Where& where);
  Result<Place> joined(const JsonValue& schema, const Where& where);
  Result<Place> combined(std::string_view keyword, const JsonValue& list, const Where& where);
  Result<std::vector<std::string>> values_of(const JsonValue& schema, const Where& where);
  Result<Place> alternatives(const JsonValue::Array& list, const Where& where);
  Result<Place> typed(const JsonValue& schema, const Where& where);
  Result<Place> of_type(std::string_view type, const JsonValue& schema, const Where& where);
  Status only(const JsonValue& schema, Keywords allowed, const Where& where) const;

  Result<Place> string_body(const JsonValue& schema, const Where& where);
  Result<TextAutomaton> texts_of(const JsonValue& schema, const Where& where);
  Result<std::vector<std::string>> patterns_of(const JsonValue& schema, const Where& where) const;
  Result<TextAutomaton> matching(std::string_view keyword, const std::string& pattern, const Where& where);
  Result<TextAutomaton> limited(const TextAutomaton& texts, int64_t least, int64_t most);

  Result<Place> number_body(const JsonValue& schema, bool whole, const Where& where);
  Result<Numbers> numbers_of(const JsonValue& schema, const Where& where);
  Result<Place> stepped_numbers(const Numbers& numbers, double step, bool whole, const Where& where);

  Result<Place> array_body(const JsonValue& schema, const Where& where);
  Result<Place> listed_items(const JsonValue::Array& listed, Rule rest, bool open_end, int64_t least,
                             std::optional<int64_t> most, const Where& where);

  Result<Place> object_body(const JsonValue& schema, const Where& where);
  Result<TextAutomaton> admitted_names(const JsonValue& wanted, const Where& where);
  Result<Names> names_of(const JsonValue& schema, const Where& where);
  Result<std::vector<Property>> properties_of(const JsonValue& schema, const Names& names,
                                              const Where& where);
  Result<std::optional<Rule>> value_of_unlisted(const Names& names, std::string_view name);
  Result<Place> free_members(const Names& names, int64_t least, std::optional<int64_t> most,
                             const Where& where);
  Result<Place> listed_members(const std::vector<Property>& properties, int64_t least,
                               std::optional<int64_t> most, const Where& where);

  const JsonValue& document_;
  Grammar& grammar_;
  JsonRules& rules_;
  Budget& budget_;
  const bool lenient_;
  SchemaPairs apart_;
  std::unordered_map<const JsonValue*, Rule> known_;
  std::vector<Open> open_;
  std::deque<Where> places_;
  std::deque<std::string> indices_;
  std::deque<JsonValue> merged_;                             // what stands in place of an allOf
  std::unordered_set<const JsonValue*> with_many_patterns_;  // of merged_
  std::map<std::string, TextAutomaton, std::less<>> patterns_;
  std::map<std::string, Place> strings_;          // by what is asked of them
  std::unordered_map<std::string, Rule> joined_;  // by what stands in place of an allOf
};

}  // namespace fulmar
