// The members of a request that constrain its answer, of every API: one list that every generating route
// reads (read_generation), so that none is silently ignored.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/fields.h"
#include "server/generate/answer_rules.h"

namespace fulmar {

// Of a form of answers, and of the objects that hold one.
inline constexpr std::string_view kFormatMembers =
    R"({"":"type schema name description strict","json_schema":{"":"name description schema strict"}})";
inline constexpr std::string_view kTextMembers =
    R"({"":"verbosity","format":{"":"type schema name description strict",)"
    R"("json_schema":{"":"name description schema strict"}}})";
inline constexpr std::string_view kOutputMembers =
    R"({"":"effort","format":{"":"type schema name description strict",)"
    R"("json_schema":{"":"name description schema strict"}}})";

// How JSON is written where the answer has to be some.
inline constexpr FieldTable kWhitespaceFields{
    "JSON",
    {{"whitespace", Takes::word("none default flexible"), "between the parts of JSON"},
     {"member_order", Takes::word("schema any"), "of the members of objects"}}};
// All members below, without what a dot leads to.
extern const FieldGroup kConstraintFields;

// One such member. A dot leads to a member of an object: "text.format".
struct ConstraintField {
  std::string_view name;
  std::string_view api;    // whose clients send it
  std::string_view takes;  // what its value may be, for the documents; empty: it is refused
  // Adds what the value asks for to the rules; faults stay in the fields.
  void (*read)(Fields& fields, const JsonValue& value, std::string_view name, AnswerRules& rules);
};

std::span<const ConstraintField> constraint_fields();

// Returns them as a table in Markdown.
std::string constraint_fields_table();
// Reads all of them, with `whitespace` and `member_order`. Faults stay in `fields`: a value that cannot be
// used, a form that is not supported, two constraints at once.
AnswerRules read_constraint(Fields& fields);

// Refuses a request that offers functions on a route without support for them; nothing when it has none or
// wants none called.
std::optional<ApiError> refuse_tools(const JsonValue& body);

}  // namespace fulmar
