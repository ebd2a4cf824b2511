// Keywords that leave no value together: the refusal names their place and each of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "grammar/answer_form.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(const std::string& schema) {
  const auto parsed = parse_json(schema);
  EXPECT_TRUE(parsed.ok()) << schema;
  const auto form = json_schema_form(AnswerStart::plain, *parsed);
  EXPECT_FALSE(form.ok()) << schema;
  return form.ok() ? std::string() : form.error().text;
}

struct Contradiction {
  const char *one, *one_value, *other, *other_value;
};
constexpr Contradiction kContradictions[] = {
    {"format", R"("date")", "pattern", R"("^x$")"},
    {"format", R"("date")", "maxLength", "3"},
    {"minLength", "3", "maxLength", "2"},
    {"pattern", R"("^a$")", "minLength", "2"},
    {"minimum", "3", "maximum", "2"},
    {"exclusiveMinimum", "1", "maximum", "1"},
    {"const", "1", "enum", "[2,3]"},
    {"enum", "[1]", "not", R"({"const":1})"},
    {"type", R"("string")", "const", "1"},
    {"required", R"(["a"])", "maxProperties", "0"},
    {"minItems", "2", "maxItems", "1"},
};

// With the type that both keywords speak of, so that no other value is left.
std::string schema_of(const Contradiction& pair, const std::string& extra = {}) {
  const std::string one = pair.one;
  const char* type = one == "format" || one == "minLength" || one == "pattern" ? "string"
                     : one.ends_with("inimum")                                 ? "number"
                     : one == "required"                                       ? "object"
                     : one == "minItems"                                       ? "array"
                                                                               : nullptr;
  std::string schema = fmt::format(R"({{"{}":{},"{}":{})", one, pair.one_value, pair.other, pair.other_value);
  if (type) schema += fmt::format(R"(,"type":"{}")", type);
  return schema + extra + "}";
}

TEST(Contradictions, AreRefusedByTheirPlaceAndBothKeywords) {
  for (const Contradiction& pair : kContradictions) {
    const std::string schema = schema_of(pair);
    const std::pair<std::string, const char*> kPlaces[] = {
        {schema, "'#'"},
        {R"({"type":"object","properties":{"a":)" + schema + R"(},"required":["a"]})", "'#/properties/a'"},
        {R"({"type":"array","minItems":1,"items":)" + schema + "}", "'#/items'"},
        {R"({"allOf":[)" + schema + "]}", "'#/allOf/0'"},
    };
    for (const auto& [whole, place] : kPlaces) {
      const std::string text = refusal_of(whole);
      EXPECT_THAT(text, HasSubstr(place)) << whole;
      EXPECT_THAT(text, HasSubstr(fmt::format("'{}'", pair.one))) << whole;
      EXPECT_THAT(text, HasSubstr(fmt::format("'{}'", pair.other))) << whole;
    }
  }
}

// Formats may annotate, so that whoever wrote one may not know that it asks for anything: wherever a schema
// may stand, one that leaves no value is told of, also where an object or array without any would do.
TEST(Contradictions, OfFormatsAreToldWhereverASchemaMayStand) {
  const char* kSchemas[] = {
      R"({"format":"date","pattern":"^x$","type":"string"})",
      R"({"format":"ipv4","maxLength":3,"type":"string"})",
      R"({"format":"date","enum":["x","y"]})",
  };
  const char* kPlaces[] = {
      R"({"type":"object","properties":{"a":SCHEMA}})",
      R"({"type":"object","additionalProperties":SCHEMA})",
      R"({"type":"object","patternProperties":{"^a":SCHEMA},"additionalProperties":false})",
      R"({"type":"object","propertyNames":SCHEMA})",
      R"({"type":"object","propertyNames":{"allOf":[SCHEMA]}})",
      R"({"type":"array","items":SCHEMA})",
      R"({"type":"array","items":SCHEMA,"uniqueItems":true})",
      R"({"type":"array","prefixItems":[SCHEMA],"items":false})",
      R"({"type":"array","contains":SCHEMA})",
      R"({"$ref":"#/$defs/a","$defs":{"a":SCHEMA}})",
      R"({"anyOf":[{"type":"integer"},SCHEMA]})",
  };
  for (const std::string schema : kSchemas) {
    for (const std::string place : kPlaces) {
      const bool unknown =
          place.find("uniqueItems") != std::string::npos && schema.find("enum") == std::string::npos;
      if (unknown) continue;  // refused before: only listed elements can be told apart
      std::string whole = place;
      whole.replace(whole.find("SCHEMA"), 6, schema);
      EXPECT_THAT(refusal_of(whole), HasSubstr("'format'")) << whole;
      Loosened loosened;
      const auto form =
          json_schema_form(AnswerStart::plain, *parse_json(whole), {.strict = false, .loosened = &loosened});
      EXPECT_TRUE(form.ok()) << whole;
      EXPECT_THAT(loosened.texts(), ::testing::Contains(HasSubstr("'format'"))) << whole;
    }
  }
}

TEST(Contradictions, OfSeveralSchemasNameEachPlace) {
  const std::string text = refusal_of(
      R"({"allOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"a":{"type":"string"}}}],"type":"object","required":["a"]})");
  EXPECT_THAT(text, HasSubstr("'type' at '#/allOf/0/properties/a'"));
  EXPECT_THAT(text, HasSubstr("'type' at '#/allOf/1/properties/a'"));
}

}  // namespace
}  // namespace fulmar::testing
