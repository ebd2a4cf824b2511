// JSON Schema to grammar rules. What it writes is valid under the schema by construction; where a schema
// admits several forms it may write fewer (no properties beside those listed, no white space, the order of
// the schema).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/json_rules.h"
#include "net/json_value.h"

namespace fulmar {

// Nesting of values of which the schema says nothing.
inline constexpr int kFreeDepth = 8;

// Handles: type, enum, const, anyOf, oneOf (of alternatives that exclude each other), allOf of one, $ref
// within the document (recursion, too), properties, required, additionalProperties, items, prefixItems,
// minItems, maxItems, minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum, and
// annotations.
class SchemaCompiler {
 public:
  // Both must outlive the compiler; `document` is what $ref looks into.
  SchemaCompiler(const JsonValue& document, Grammar& grammar, JsonRules& rules)
      : document_(document), grammar_(grammar), rules_(rules) {}

  // The values that the whole document describes. Errors: unsupported, naming the keyword and its place;
  // invalid for schemas that break JSON Schema's own rules or admit nothing.
  Result<Rule> compile() { return rule_of(document_, "#"); }

 private:
  using Keywords = std::initializer_list<std::string_view>;

  Result<Rule> rule_of(const JsonValue& schema, const std::string& where);
  Result<Place> body_of(const JsonValue& schema, const std::string& where);
  Result<Place> values_of(const JsonValue& schema, const JsonValue::Array& values, const std::string& where);
  Result<Place> alternatives(const JsonValue& list, const std::string& where);
  Result<Place> typed(const JsonValue& schema, const std::string& where);
  Result<Place> of_type(std::string_view type, const JsonValue& schema, const std::string& where);
  Result<Place> string_body(const JsonValue& schema, const std::string& where);
  Result<Place> number_body(const JsonValue& schema, bool whole, const std::string& where);
  Result<Place> array_body(const JsonValue& schema, const std::string& where);
  Result<Place> object_body(const JsonValue& schema, const std::string& where);
  Status only(const JsonValue& schema, Keywords allowed, const std::string& where) const;

  Result<const JsonValue*> target(const JsonValue& reference, const std::string& where) const;
  Status check_apart(const JsonValue::Array& choices, const std::string& where) const;
  bool apart(const JsonValue& one, const JsonValue& other, int depth) const;
  const JsonValue& resolved(const JsonValue& schema) const;

  const JsonValue& document_;
  Grammar& grammar_;
  JsonRules& rules_;
  std::map<const JsonValue*, Rule> known_;
};

}  // namespace fulmar
