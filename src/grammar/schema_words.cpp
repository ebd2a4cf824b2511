#include "grammar/schema_words.h"

#include <fmt/format.h>

namespace fulmar {
namespace {

constexpr SchemaWord kWords[] = {
    {"type, enum, const", "whole; `nullable` adds null beside a `type`", "names that are no type",
     R"({"type":["string","null"],"enum":["a",null]})", R"({"type":"OBJECT"})"},
    {"allOf, $ref, $dynamicRef, $recursiveRef",
     "joined with what stands beside them; references stay within the document: places, `$anchor`, `$id` and "
     "`id` as bases. Drafts 4 to 7 ignore what stands beside a `$ref`",
     "other documents, which are never fetched",
     R"({"$ref":"#/$defs/a","minimum":2,"$defs":{"a":{"type":"integer"}}})",
     R"({"$ref":"http://example.com/other"})"},
    {"anyOf, oneOf, if, then, else, dependentRequired, dependentSchemas, dependencies",
     "beside any other words; where two alternatives of `oneOf` may fit one value, values of which that is "
     "certain are left out",
     "more than 1,000 alternatives in all, or 256 of a `oneOf`",
     R"({"properties":{"a":{"const":1}},"anyOf":[{"required":["a"]},{"maxProperties":0}]})", ""},
    {"not", "what misses a type, value, bound, length, count, pattern, required or listed member",
     "where none of these is asked for", R"({"type":"string","not":{"enum":["a"]}})",
     R"({"type":"number","not":{"const":0}})"},
    {"properties, required, patternProperties, additionalProperties, unevaluatedProperties, propertyNames",
     "whole: a member fits all that speaks of its name. Listed ones come first; names that nothing describes "
     "are "
     "written only where none is listed, or the format is not strict",
     "names by a pattern that is refused",
     R"({"properties":{"a":{"const":1}},"unevaluatedProperties":false})",
     R"({"patternProperties":{"(a)\\1":{}}})"},
    {"minProperties, maxProperties", "whole where properties are listed; of others only one can be asked for",
     "more of members that nothing lists",
     R"({"properties":{"a":{"const":1},"b":{"const":2}},"minProperties":1})",
     R"({"type":"object","minProperties":5})"},
    {"items, prefixItems, additionalItems, unevaluatedItems, minItems, maxItems",
     "whole, lists in `items`, too; behind listed elements others are written where they are described", "",
     R"({"type":"array","prefixItems":[{"const":1}],"items":{"type":"null"},"maxItems":3})", ""},
    {"contains, minContains, maxContains", "one of them, with counts of up to 64",
     "several, or larger counts", R"({"type":"array","items":{"type":"integer"},"contains":{"const":1}})",
     ""},
    {"uniqueItems",
     "of elements that `enum` or `const` list: up to 7 in any order, more in the order of the schema",
     "of others", R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b"]}})",
     R"({"type":"array","uniqueItems":true,"items":{"type":"string"}})"},
    {"minLength, maxLength", "whole, in code points", "",
     R"({"type":"string","minLength":2,"maxLength":5000})", ""},
    {"pattern", "regular expressions of ECMA-262, see below", "what is not regular, as references back",
     R"({"type":"string","pattern":"^[a-z]+$"})", R"({"type":"string","pattern":"(a)\\1"})"},
    {"format",
     "`date-time`, `date`, `time`, `duration`, `email`, `idn-email`, `uuid`, `uri`, `uri-reference`, "
     "`uri-template`, "
     "`iri`, `iri-reference`, `json-pointer`, `relative-json-pointer`, `regex`, `ipv4`, `ipv6`, `hostname`, "
     "`idn-hostname`, `byte` and the range of `int32`, each in its common forms; others annotate",
     "a format that no value has which the words beside it let be", R"({"type":"string","format":"date"})",
     R"({"type":"string","format":"date","pattern":"^[a-z]+$"})"},
    {"contentEncoding", "`base64`; others annotate", "as a format",
     R"({"type":"string","contentEncoding":"base64"})", ""},
    {"minimum, maximum, exclusiveMinimum, exclusiveMaximum",
     "exactly, whatever their length, up to 15 digits behind the point (no JSON of a request holds a whole "
     "number beyond 64 bits); a power of ten where it cannot leave the bounds; the booleans of draft 4, too",
     "values that are no number", R"({"type":"number","minimum":0.1,"exclusiveMaximum":0.9})",
     R"({"type":"number","minimum":"x"})"},
    {"multipleOf", "steps of at most 12 digits behind the point", "others",
     R"({"type":"number","multipleOf":0.25})", R"({"type":"number","multipleOf":1e-30})"},
};

std::string code_of(std::string_view words) {
  std::string text = "`";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ',') {
      text += "`,";
    } else if (words[i] == ' ' && i > 0 && words[i - 1] == ',') {
      text += " `";
    } else {
      text += words[i];
    }
  }
  return text + "`";
}

}  // namespace

std::span<const SchemaWord> schema_words() { return kWords; }

std::string schema_words_table() {
  std::string text = "| keyword | kept | refused or loosened |\n|---|---|---|\n";
  for (const SchemaWord& word : kWords) {
    text += fmt::format("| {} | {} | {} |\n", code_of(word.words), word.kept,
                        word.refused.empty() ? "–" : word.refused);
  }
  return text;
}

}  // namespace fulmar
