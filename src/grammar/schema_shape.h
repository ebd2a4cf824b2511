// What a value must be, gathered from every schema that it must fit: one form that joins `allOf`, `$ref` and
// alternatives with the keywords beside them. Knows no grammar.
#pragma once

#include <bitset>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/decimal.h"
#include "grammar/loosened.h"
#include "grammar/schema_document.h"
#include "net/json_value.h"

namespace fulmar {

// The kinds of JSON values, as bits of a Shape.
inline constexpr size_t kNull = 0, kBoolean = 1, kNumber = 2, kString = 3, kArray = 4, kObject = 5;
using Kinds = std::bitset<6>;

// A schema that a value must fit, or must not fit.
struct Demand {
  const JsonValue* schema = nullptr;
  bool fits = true;
  auto operator<=>(const Demand&) const = default;
};
using Demands = std::vector<Demand>;

// All members apply at once; those about one kind do not affect values of others.
struct Shape {
  Kinds kinds = Kinds().set();
  std::optional<std::vector<const JsonValue*>> values;  // listed one by one
  std::vector<const JsonValue*> excluded;

  bool whole = false;       // numbers without a fraction
  bool fractional = false;  // numbers with one
  NumberRange range;
  std::vector<std::pair<double, const JsonValue*>> steps;  // and the schemas that ask for them

  struct Matching {
    const JsonValue* schema;
    bool fits;
  };
  std::vector<Matching> patterns;  // schemas with 'pattern'
  struct Described {
    const JsonValue* schema;
    std::string_view keyword;
    std::string_view format;
  };
  std::vector<Described> formats;
  std::vector<std::string_view> missed_formats;  // strings that surely are of no such format
  int64_t least_length = 0;
  int64_t most_length = -1;  // < 0: no bound; so below

  std::vector<const JsonValue*> lists;  // schemas with 'items', 'prefixItems' or 'additionalItems'
  struct Contained {
    Demand item;
    int64_t least;
    int64_t most;
    const JsonValue* schema;
  };
  std::vector<Contained> contained;
  const JsonValue* unique = nullptr;  // the schema that asks for it
  int64_t least_items = 0;
  int64_t most_items = -1;

  std::vector<const JsonValue*> objects;  // schemas with (pattern-, additional-) properties
  std::vector<std::pair<std::string_view, Demand>> members;
  std::vector<std::string_view> required;
  std::vector<Demand> names;
  // A schema with 'unevaluatedProperties' or 'unevaluatedItems', and the schemas that it and what it combines
  // contain: what none of these mentions is unevaluated.
  struct Unevaluated {
    const JsonValue* schema;
    std::vector<const JsonValue*> seen;
  };
  std::vector<Unevaluated> unevaluated;
  int64_t least_members = 0;
  int64_t most_members = -1;

  // Returns the range, narrowed by the formats of numbers.
  NumberRange numbers() const;
  // Returns whether the kinds and bounds alone show that nothing fits.
  bool impossible() const;
  // Returns whether nothing is demanded.
  bool free() const;
};

// Shared state of all code that reads one document.
class SchemaReader {
 public:
  // Reads a document; all arguments must outlive this. `loosened` gets what is not kept; null: it is refused.
  SchemaReader(const SchemaDocument& document, Budget& budget, Loosened* loosened)
      : document_(document), budget_(budget), loosened_(loosened) {}

  const SchemaDocument& document() const { return document_; }
  Budget& budget() { return budget_; }

  // Adds the schema's keywords to the shape, except those that combine schemas. Errors: invalid, for what
  // breaks JSON Schema's own rules; unsupported.
  Status read(const JsonValue& schema, Shape& shape);
  // Returns whether the error may be passed over, and notes it.
  bool loosens(const Error& error);

  Error invalid(const JsonValue& schema, std::string_view keyword, const JsonValue& found,
                std::string_view wanted) const;
  Error unsupported(const JsonValue& schema, std::string_view keyword, std::string_view why) const;

 private:
  const SchemaDocument& document_;
  Budget& budget_;
  Loosened* const loosened_;
};

// The kinds that a `type` names; `whole`: numbers are there only by "integer".
struct NamedKinds {
  Kinds kinds;
  bool whole = false;
};
std::optional<NamedKinds> kinds_named(const JsonValue& schema);

// Returns whether the keyword combines schemas; such keywords are followed after the others.
bool combines(std::string_view keyword);
// Returns whether the keyword asserts anything in any draft that is read.
bool asserts(std::string_view keyword);

}  // namespace fulmar
