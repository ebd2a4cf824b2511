// The order of members.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "grammar/answer_form.h"
#include "grammar/taken.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

// Members of several schemas that one value has to fit come in their order, whatever lies where in memory.
TEST(SchemaOrder, DoesNotDependOnAddresses) {
  const std::string text =
      R"({"$defs":{"A":{"properties":{"x":{"items":{"properties":{"a":{"const":1}},"required":["a"]}}}},)"
      R"("B":{"properties":{"x":{"items":{"properties":{"b":{"const":2}},"required":["b"]}}}}},)"
      R"("type":"object","required":["x"],"allOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}],)"
      R"("properties":{"x":{"type":"array","items":{"type":"object"}}}})";
  const JsonValue first = *parse_json(text);
  // The same document, whose parts are made in the opposite order.
  const JsonValue b = *first.find("$defs")->find("B");
  const JsonValue a = *first.find("$defs")->find("A");
  for (const bool swapped : {false, true}) {
    std::vector<JsonObject::Member> parts;
    JsonValue early = swapped ? b : a;
    JsonValue late = swapped ? a : b;
    parts.emplace_back("A", std::move(swapped ? late : early));
    parts.emplace_back("B", std::move(swapped ? early : late));
    std::vector<JsonObject::Member> members = first.as_object().members();
    for (auto& member : members) {
      if (member.first == "$defs") member.second = JsonValue(JsonObject(std::move(parts)));
    }
    const auto form = json_schema_form(AnswerStart::plain, JsonValue(JsonObject(std::move(members))), {});
    ASSERT_TRUE(form.ok()) << form.error().text;
    EXPECT_TRUE(takes(*form, R"({"x":[{"a":1,"b":2}]})")) << swapped;
    EXPECT_FALSE(takes(*form, R"({"x":[{"b":2,"a":1}]})")) << swapped;
  }
}

}  // namespace
}  // namespace fulmar::testing
