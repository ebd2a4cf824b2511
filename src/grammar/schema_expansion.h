// From schemas that a value has to fit, or must not, to shapes of which it has to fit one. Follows references
// and whatever combines schemas; knows no grammar.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/schema_apart.h"
#include "grammar/schema_members.h"
#include "grammar/schema_shape.h"
#include "grammar/schema_texts.h"

namespace fulmar {

// Alternatives or optional properties of which one text may hold any: each is a reading to follow.
inline constexpr size_t kMaxChoices = 1000;

class SchemaExpansion {
 public:
  // Both must outlive it.
  SchemaExpansion(SchemaReader& reader, SchemaTexts& texts)
      : reader_(reader), texts_(texts), apart_(reader.document(), reader.budget()) {}

  // The shapes; none: no value fits. Each value of a shape fits all demands; shapes may leave out values
  // where a refused schema ('not') could be missed in ways that cannot be told. Errors: those of reading;
  // invalid, for a schema that refers to nothing but itself; unsupported.
  // `only`: where it is there, nothing but this value counts, and what must not fit is told exactly.
  Result<std::vector<Shape>> shapes_of(const Demands& demands, const JsonValue* only = nullptr);
  // Whether the value fits.
  Result<bool> fits(const JsonValue& value, const Demands& demands);
  Result<bool> fits(const JsonValue& value, const Shape& shape);
  // Checks that at most one of the alternatives fits any value; false: that cannot be told.
  Result<bool> all_apart(const JsonValue::Array& alternatives);

 private:
  // A value may miss the schemas that must not fit in several ways, each a shape: the first so many are kept.
  static constexpr size_t kMaxWays = 32;

  // A demand, and the one that led to it.
  struct Step {
    Demand demand;
    int32_t from = -1;
  };
  // A shape of which some demands are still to be read.
  struct Partial {
    Shape shape;
    std::vector<Step> steps;
    std::vector<int32_t> open;     // of steps: schemas to fit
    std::vector<int32_t> refused;  // of steps: schemas not to fit, looked at when all others are known
    size_t ways = kMaxWays;        // into which refusals may still divide it
  };
  using Partials = std::vector<Partial>;

  Status demand(Partial& partial, Demand demand, int32_t from);
  bool leads_to_itself(const Partial& partial, int32_t step) const;
  static void find_evaluated(Partial& partial);
  Status refuse_values(Partial& partial, const JsonValue& schema);
  bool surely_missed(const Shape& shape, const JsonValue& schema) const;
  Status follow(Partial partial, Partials& more);
  Status follow_fitting(Partial partial, int32_t step, Partials& more);
  Status combine(std::string_view keyword, const JsonValue& schema, int32_t step, Partials& partials);
  Status add_alternatives(const JsonValue::Array& list, std::string_view keyword, const JsonValue& schema,
                          int32_t step, Partials& partials);
  Status add_condition(const JsonValue& schema, int32_t step, Partials& partials);
  Status add_dependencies(const JsonValue& schema, const JsonValue& map, std::string_view keyword,
                          int32_t step, Partials& partials);

  // Of schemas that must not fit.
  Status follow_refused(Partial partial, int32_t step, Partials& more);
  Status miss_keyword(std::string_view keyword, const JsonValue& value, const JsonValue& schema,
                      const Partial& from, int32_t step, Partials& ways, bool& kept);
  Status miss_combination(std::string_view keyword, const JsonValue& value, const JsonValue& schema,
                          const Partial& from, int32_t step, Partials& ways, bool& kept);
  Status miss_unlisted(const JsonValue& value, const JsonValue& schema, const Partial& from, Partials& ways);
  Status take(const Partial& copied);
  Result<bool> elements_fit(const JsonValue& value, const Shape& shape);
  Result<bool> members_fit(const JsonValue& value, const Shape& shape);

  SchemaReader& reader_;
  SchemaTexts& texts_;
  SchemaPairs apart_;
  int depth_ = 0;  // of values within each other that are tried
};

// False as a schema.
const JsonValue& nothing_schema();

}  // namespace fulmar
