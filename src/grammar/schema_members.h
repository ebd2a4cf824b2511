// Which schemas the member of an object has to fit, by its name; which schemas its elements, by their place.
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
  // What one schema says of names: `properties`, `patternProperties`, and `additionalProperties` for the
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

  // Errors: those of patterns.
  static Result<SchemaMembers> of(const Shape& shape, SchemaReader& reader, SchemaTexts& texts);

  // The schemas that a member of this name has to fit. Errors: those of the budget.
  Result<Demands> of_name(std::string_view name, const Shape& shape, Budget& budget) const;
  const std::vector<Scope>& scopes() const { return scopes_; }
  // Values of names that nothing lists are described, not just let be.
  bool describes_rest() const;
  // Adds the schemas of members that `matched` scopes, by their schemas, do not speak of.
  void add_unevaluated(const Shape& shape, const std::vector<const JsonValue*>& speaking,
                       Demands& demands) const;

 private:
  std::vector<Scope> scopes_;
};

// Each once, in the order given, without those that everything fits; one that nothing fits stands alone.
void settle(Demands& demands);
bool nothing_fits(const Demands& demands);

// The schemas of the element at `index`, and of all behind the listed ones. `listed`: how many some list
// names.
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
