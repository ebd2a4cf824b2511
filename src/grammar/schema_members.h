// Finds the schemas that a member of an object must fit, by name, and those that an element must fit, by
// index.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/schema_shape.h"
#include "grammar/schema_texts.h"

namespace fulmar {

class SchemaMembers {
 public:
  // What one schema says about names: `properties`, `patternProperties`, and `additionalProperties` for the
  // rest.
  struct Scope {
    const JsonValue* schema;
    const JsonValue* properties = nullptr;
    struct Matching {
      const TextAutomaton* names;
      const JsonValue* value;
    };
    std::vector<Matching> patterns;
    const JsonValue* rest = nullptr;
  };

  // Collects the scopes of a shape. Errors: those of patterns.
  static Result<SchemaMembers> of(const Shape& shape, SchemaReader& reader, SchemaTexts& texts);

  // Returns the schemas that a member of this name must fit. Errors: those of the budget.
  Result<Demands> of_name(std::string_view name, const Shape& shape, Budget& budget) const;
  const std::vector<Scope>& scopes() const { return scopes_; }
  // Returns whether a schema describes values of unlisted names, instead of only allowing them.
  bool describes_rest() const;
  // Adds the schemas for unevaluated members; `speaking`: the schemas of scopes that mention them.
  void add_unevaluated(const Shape& shape, const std::vector<const JsonValue*>& speaking,
                       Demands& demands) const;

 private:
  std::vector<Scope> scopes_;
};

// Removes duplicates and schemas that everything fits, in order; keeps only one that nothing fits, if any.
void settle(Demands& demands);
bool nothing_fits(const Demands& demands);

// The schemas of the element at an index, and of all after the listed ones. `listed`: the most elements that
// a schema lists.
struct SchemaElements {
  explicit SchemaElements(const Shape& shape) : shape_(shape) { read(); }
  Demands at(size_t index) const;

  size_t listed = 0;
  bool describes_rest = false;  // by 'items' or 'additionalItems'

 private:
  struct List {
    const JsonValue* schema;
    const JsonValue::Array* listed = nullptr;
    const JsonValue* rest = nullptr;
  };
  void read();

  const Shape& shape_;
  std::vector<List> lists_;
};

}  // namespace fulmar
