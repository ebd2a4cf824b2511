// Turns schemas that a value must fit, or must not fit, into shapes, of which it must fit one. Follows
// references and all keywords that combine schemas; knows no grammar.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/schema_apart.h"
#include "grammar/schema_members.h"
#include "grammar/schema_shape.h"
#include "grammar/schema_texts.h"

namespace fulmar {

// The most alternatives, or optional properties, of which one text may hold any: each is a reading to follow.
inline constexpr size_t kMaxChoices = 1000;

class SchemaExpansion {
 public:
  // Expands with a reader and texts, which must outlive this.
  SchemaExpansion(SchemaReader& reader, SchemaTexts& texts)
      : reader_(reader), texts_(texts), apart_(reader.document(), reader.budget()) {}

  // Returns the shapes; none: no value fits. Each value of a shape fits all demands. Shapes may leave out
  // values where a refused schema ('not') could be missed in ways that cannot be computed. If `only` is
  // given, only this value counts, and whether it misses refused schemas is decided exactly. Errors: those of
  // reading; invalid, for a schema that refers to nothing but itself; unsupported.
  Result<std::vector<Shape>> shapes_of(const Demands& demands, const JsonValue* only = nullptr);
  // Returns whether the value fits.
  Result<bool> fits(const JsonValue& value, const Demands& demands);
  Result<bool> fits(const JsonValue& value, const Shape& shape);
  // Returns true when at most one alternative fits any value; false where that cannot be decided.
  Result<bool> all_apart(const JsonValue::Array& alternatives);

 private:
  // A value may miss the refused schemas in several ways, each a shape; this many are kept.
  static constexpr size_t kMaxWays = 32;

  // A demand, and the step that led to it.
  struct Step {
    Demand demand;
    int32_t from = -1;
  };
  // A shape of which some demands have not been read yet.
  struct Partial {
    Shape shape;
    std::vector<Step> steps;
    std::vector<int32_t> open;     // of steps: schemas to fit
    std::vector<int32_t> refused;  // of steps: schemas not to fit, looked at when all others are known
    size_t ways = kMaxWays;        // into which refusals may still divide it

    // Returns the schema that the step asks for.
    const JsonValue& schema_of(int32_t step) const { return *steps[static_cast<size_t>(step)].demand.schema; }
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

  // Adds the ways to miss a schema that must not fit.
  Status follow_refused(Partial partial, int32_t step, Partials& more);
  Status miss_keyword(std::string_view keyword, const JsonValue& value, const Partial& from, int32_t step,
                      Partials& ways, bool& kept);
  Status miss_combination(std::string_view keyword, const JsonValue& value, const Partial& from, int32_t step,
                          Partials& ways, bool& kept);
  Status miss_unlisted(const JsonValue& value, const JsonValue& schema, const Partial& from, Partials& ways);
  Status take(const Partial& copied);
  Result<bool> elements_fit(const JsonValue& value, const Shape& shape);
  Result<bool> members_fit(const JsonValue& value, const Shape& shape);

  SchemaReader& reader_;
  SchemaTexts& texts_;
  SchemaPairs apart_;
  int depth_ = 0;  // of values within each other that are tried
};

// Returns `false` as a schema.
const JsonValue& nothing_schema();

}  // namespace fulmar
