// Which texts a schema's grammar takes, and which schemas are refused.
#include "grammar/schema.h"

#include <gtest/gtest.h>

#include "grammar/answer_form.h"
#include "grammar/automaton.h"
#include "grammar/taken.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar::testing {
namespace {

JsonValue json(const std::string& text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value ? *value : JsonValue();
}

struct Case {
  std::string schema;
  std::vector<std::string> taken;
  std::vector<std::string> refused;
};

class SchemaTakes : public ::testing::TestWithParam<Case> {};

TEST_P(SchemaTakes, WhatItDescribes) {
  const auto grammar = json_schema_form(AnswerStart::plain, json(GetParam().schema));
  ASSERT_TRUE(grammar.ok()) << grammar.error().text;
  for (const std::string& text : GetParam().taken) EXPECT_TRUE(takes(*grammar, text)) << text;
  for (const std::string& text : GetParam().refused) EXPECT_FALSE(takes(*grammar, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Keywords, SchemaTakes,
    ::testing::Values(
        Case{R"({"type":"null"})", {"null", " null", "\nnull"}, {"", "nul", "nulll", "  null"}},
        Case{R"({"type":"boolean"})", {"true", "false"}, {"0", "True"}},
        Case{R"({"type":["string","null"]})", {"null", "\"\""}, {"1"}},
        Case{R"({"const":{"a":[1,"x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a":[1, "x"]})", "{}"}},
        Case{R"({"enum":["red","green",3,null],"type":["string","null"]})",
             {"\"red\"", "null"},
             {"3", "\"blue\""}},
        Case{R"({"type":"string"})",
             {R"("a\n\u00e9\"")", "\"\xC3\xA9\xF0\x9F\x98\x80\""},
             {"\"a\nb\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", R"("\ud800")", R"("\x")",
              "\"\xF5\x80\x80\x80\""}},
        Case{R"({"type":"string","minLength":1,"maxLength":2})",
             {"\"a\"", "\"\xC3\xA9\xC3\xA9\"", R"("\n\"")"},
             {"\"\"", "\"abc\""}},
        Case{R"({"type":"integer"})", {"0", "-1", "120"}, {"01", "1.0", "-", "--1", "1e3", "+1"}},
        Case{R"({"type":"integer","minimum":7,"maximum":123})",
             {"7", "9", "10", "99", "100", "119", "123"},
             {"6", "124", "130", "0", "-7", "1230"}},
        Case{R"({"type":"integer","minimum":-12,"exclusiveMaximum":3})",
             {"-12", "-9", "-1", "0", "2"},
             {"-13", "-20", "3", "-0"}},
        Case{R"({"type":"number"})", {"0", "-0.5", "1.25", "1e9", "2.5e-3"}, {".5", "1.", "1e", "NaN"}},
        Case{R"({"type":"number","minimum":0,"maximum":1})", {"0", "1", "0.5", "0.05"}, {"1.5", "-0.5", "2"}},
        Case{R"({"type":"number","exclusiveMinimum":0,"maximum":2.5})",
             {"1", "2", "0.1", "1.9"},
             {"0", "0.0", "2.6", "3"}},
        Case{R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
             {"[1]", "[1,2,3]"},
             {"[]", "[1,2,3,4]", "[1,]", "[1, 2]"}},
        Case{R"({"type":"array","items":{"type":"null"}})", {"[]", "[null,null]"}, {"[1]"}},
        Case{R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"items":{"const":1}})",
             {"[]", "[5]", "[5,null]", "[5,null,1,1]"},
             {"[null]", "[5,1]"}},
        Case{
            R"({"type":"array","prefixItems":[{"const":1},{"const":2},{"const":3}],"minItems":1,"maxItems":2})",
            {"[1]", "[1,2]"},
            {"[]", "[1,2,3]"}},
        Case{R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"const":1}},)"
             R"("required":["b"]})",
             {R"({"b":null})", R"({"a":1,"b":null})", R"({"b":null,"c":1})", R"({"a":1,"b":null,"c":1})"},
             {R"({})", R"({"a":1})", R"({,"b":null})", R"({"b":null,"a":1})", R"({"b":null,})"}},
        Case{R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}}})",
             {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
             {R"({"c":1})"}},
        Case{R"({"type":"object","additionalProperties":{"type":"integer"}})",
             {"{}", R"({"x":1,"y":2})"},
             {R"({"x":null})"}},
        Case{R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"x":1})"}},
        Case{R"({"type":"object","properties":{},"required":["x"]})", {R"({"x":[1,{}]})"}, {"{}"}},
        Case{R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]})",
             {"1", "[1]"},
             {"null"}},
        Case{R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},)"
             R"({"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
             {R"({"k":"a"})", R"({"k":"b"})"},
             {R"({"k":"c"})"}},
        Case{
            R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},)"
            R"("next":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},"required":["v","next"]}}})",
            {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
            {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
        Case{R"({"type":"object","properties":{"a/b":{"type":"null"},"x":{"$ref":"#/properties/a~1b"}},)"
             R"("required":["a/b","x"],"title":"T"})",
             {R"({"a/b":null,"x":null})"},
             {"{}"}},
        Case{"{}", {"1", R"({"a":[true,"x",{"b":null}]})"}, {"", "{"}},
        Case{R"({"type":"string","nullable":true})", {"null", "\"a\""}, {"1"}},
        Case{R"({"enum":["a"],"nullable":true,"type":"string"})", {"\"a\""}, {"null"}},
        Case{R"({"type":"integer","x-order":1,"format":"int32"})", {"2147483647"}, {"2147483648"}},
        Case{R"({"type":"string","format":"x-own","contentEncoding":"gzip"})", {"\"anything\""}, {"1"}},
        Case{R"({"type":"string","contentEncoding":"base64"})",
             {R"("YQ==")", R"("")"},
             {R"("YQ")", R"("a b=")"}},
        Case{R"({"type":"string","format":"date"})",
             {R"("2024-02-29")", R"("2000-02-29")", R"("2023-12-31")"},
             {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")"}},
        Case{R"({"type":"string","format":"uuid","maxLength":36})",
             {R"("123e4567-e89b-12d3-a456-426614174000")"},
             {R"("123e4567e89b12d3a456426614174000")"}},
        Case{R"({"type":"integer","multipleOf":7,"minimum":-20,"maximum":30})",
             {"-14", "-7", "0", "7", "14", "28"},
             {"1", "-1", "35", "-21", "-0", "07"}},
        Case{R"({"type":"integer","multipleOf":100,"minimum":150})", {"200", "1000"}, {"100", "150", "0"}},
        Case{R"({"type":"number","multipleOf":0.01,"minimum":0,"maximum":2})",
             {"0", "1", "1.25", "0.5"},
             {"1.255", "2.5", "-1"}},
        Case{R"({"type":"number","multipleOf":2.5})", {"5", "-10", "0"}, {"2", "2.4"}},
        Case{R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"minProperties":2})",
             {R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
             {"{}", R"({"a":1})", R"({"c":3})"}},
        Case{
            R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"],"maxProperties":2})",
            {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})"},
            {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
        Case{R"({"type":"object","additionalProperties":{"const":1},"minProperties":1,"maxProperties":2})",
             {R"({"x":1})", R"({"x":1,"y":1})"},
             {"{}", R"({"x":1,"y":1,"z":1})"}},
        Case{R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"const":1}})",
             {"{}", R"({"abc":1})"},
             {R"({"A":1})", R"({"":1})"}},
        Case{R"({"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"const":1}})",
             {"{}", R"({"a":1,"b":1})", R"({"b":1})"},
             {R"({"c":1})"}},
        Case{
            R"({"patternProperties":{"^n_":{"type":"integer"},"^s_":{"type":"string"}},"additionalProperties":false})",
            {"{}", R"({"n_a":1,"s_b":"x"})"},
            {R"({"n_a":"x"})", R"({"z":1})"}},
        Case{R"({"patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
             {R"({"n_a":1,"z":null})"},
             {R"({"n_a":null})", R"({"z":1})"}},
        Case{
            R"({"allOf":[{"type":"number","minimum":3},{"type":"integer","maximum":5}],"title":"T","minimum":4})",
            {"4", "5"},
            {"3", "6", "4.5"}},
        Case{R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"}],"type":"string","maxLength":3})",
             {R"("ab")", R"("axb")"},
             {R"("a")", R"("b")", R"("axxb")"}},
        Case{R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"},{"pattern":"^a"}],"type":"string"})",
             {R"("ab")"},
             {R"("a")", R"("b")"}},
        Case{
            R"({"allOf":[{"$ref":"#/$defs/n"},{"type":"object","properties":{"b":{"const":2},"a":{"maximum":3}},)"
            R"("required":["b"]}],"$defs":{"n":{"type":"object","properties":{"a":{"type":"integer","minimum":3}},)"
            R"("required":["a"]}}})",
            {R"({"a":3,"b":2})"},
            {R"({"a":3})", R"({"b":2})", R"({"a":4,"b":2})"}},
        Case{R"({"anyOf":[{"const":"ab"},{"enum":["abc","x",1,12]},{"type":"boolean"}]})",
             {"\"ab\"", "\"abc\"", "\"x\"", "1", "12", "true"},
             {"\"a\"", "2", "null"}}));

// Keywords that combine schemas, beside others.
INSTANTIATE_TEST_SUITE_P(
    Combinations, SchemaTakes,
    ::testing::Values(
        Case{R"({"allOf":[{"prefixItems":[{"minimum":3}]}],"items":{"minimum":5}})",
             {"[5]", "[5,5,6]", "[]"},
             {"[3,5]", "[5,3]"}},
        Case{R"({"type":"array","allOf":[{"items":{"type":"integer"}},{"prefixItems":[{"type":"string"}]}]})",
             {"[]"},
             {R"(["a",1])", R"(["a"])", "[1]"}},
        Case{R"({"allOf":[{"type":"string","nullable":true},{"type":"string","minLength":2}]})",
             {R"("ab")"},
             {"null", R"("a")"}},
        Case{R"({"properties":{"ab":{"type":"null"}},"patternProperties":{"^a":{"type":"string"}}})",
             {"{}", R"({"ax":"y"})"},
             {R"({"ab":null})", R"({"ab":"x"})", R"({"ax":1})"}},
        Case{R"({"anyOf":[{"type":"null"},{"type":"string"}],"minLength":3})",
             {"null", R"("abc")"},
             {R"("ab")"}},
        Case{R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"1.5", "-0.25"}, {"1", "1.0"}},
        Case{R"({"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"b$"}]})",
             {R"("a")", R"("b")"},
             {R"("ab")", R"("c")"}},
        Case{R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{}]})",
             {"{}", R"({"a":1})"},
             {R"({"b":1})"}},
        Case{R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},)"
             R"("anyOf":[{"required":["a"]},{"required":["b"]}]})",
             {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
             {"{}"}},
        Case{R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},)"
             R"("oneOf":[{"required":["a"]},{"required":["b"]}]})",
             {R"({"a":1})", R"({"b":2})"},
             {"{}", R"({"a":1,"b":2})"}},
        Case{R"({"type":"string","not":{"enum":["a","b"]},"maxLength":1})",
             {R"("")", R"("c")"},
             {R"("a")", R"("b")"}},
        Case{R"({"not":{"type":["integer","string"]}})", {"1.5", "null", "true"}, {"1", R"("a")"}},
        Case{R"({"type":"object","properties":{"k":{"enum":["x","y"]},"v":{"const":1},"w":{"const":2}},)"
             R"("required":["k"],"if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"]},)"
             R"("else":{"required":["w"]}})",
             {R"({"k":"x","v":1})", R"({"k":"y","w":2})", R"({"k":"x","v":1,"w":2})"},
             {R"({"k":"x"})", R"({"k":"y","v":1})", R"({"k":"x","w":2})"}},
        Case{
            R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"dependentRequired":{"a":["b"]}})",
            {"{}", R"({"b":2})", R"({"a":1,"b":2})"},
            {R"({"a":1})"}},
        Case{R"({"type":"array","items":{"enum":[1,2]},"uniqueItems":true})",
             {"[]", "[1]", "[2,1]", "[1,2]"},
             {"[1,1]", "[1,2,1]"}},
        Case{R"({"type":"array","items":{"type":"integer"},"contains":{"const":3},"maxItems":3})",
             {"[3]", "[1,3]", "[1,3,3]"},
             {"[]", "[1]", "[1,2,3,3]"}},
        Case{R"({"type":"array","contains":{"const":3},"maxContains":1,"items":{"enum":[1,3]}})",
             {"[3]", "[1,1,3,1]"},
             {"[1]", "[3,3]"}},
        Case{R"({"type":"object","properties":{"a":{"const":1}},"additionalProperties":{"const":2}})",
             {"{}", R"({"a":1,"b":2})", R"({"aa":2})", R"({"":2})"},
             {R"({"a":2})", R"({"b":1})", R"({"b":2,"a":1})", R"({"\u0061":2})"}},
        Case{R"({"$ref":"#/$defs/a","minimum":3,"$defs":{"a":{"type":"integer"}}})", {"3"}, {"2", "3.5"}},
        Case{R"({"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","minimum":3,)"
             R"("definitions":{"a":{"type":"integer"}}})",
             {"3", "2"},
             {"3.5"}},
        Case{R"({"$id":"http://x.example/root.json","$ref":"item.json#part","$defs":{"i":{"$id":"item.json",)"
             R"("$defs":{"p":{"$anchor":"part","const":1}}}}})",
             {"1"},
             {"2"}},
        Case{R"({"$ref":"#/$defs/a%25b","$defs":{"a%b":{"const":1}}})", {"1"}, {"2"}},
        Case{R"({"$schema":"http://json-schema.org/draft-04/schema#","id":"x","type":"integer","minimum":3,)"
             R"("exclusiveMinimum":true,"javaType":"long"})",
             {"4"},
             {"3"}},
        Case{R"({"type":"array","items":[{"const":1},{"const":2}],"additionalItems":{"const":3}})",
             {"[]", "[1]", "[1,2,3,3]"},
             {"[2]", "[1,3]"}},
        Case{R"({"type":"object","properties":{"x":{"type":"integer","enum":["1"]},"y":{"const":1}}})",
             {"{}", R"({"y":1})"},
             {R"({"x":"1"})"}},
        Case{
            R"({"allOf":[{"properties":{"a":{"const":1}}},{"unevaluatedProperties":false}],"type":"object"})",
            {"{}"},
            {R"({"a":1})"}},
        Case{R"({"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},)"
             R"({"properties":{"b":{"const":2}}}],"unevaluatedProperties":false})",
             {"{}", R"({"a":1})", R"({"b":2})"},
             {R"({"c":1})", R"({"a":1,"b":2})"}},
        Case{R"({"type":"array","allOf":[{"prefixItems":[{"const":1}]}],"unevaluatedItems":{"const":2}})",
             {"[]", "[1]", "[1,2,2]"},
             {"[2]", "[1,1]"}},
        Case{R"({"oneOf":[{"type":"string","format":"uri"},{"type":"string","const":"latest"}]})",
             {R"("latest")", R"("a:b")"},
             {R"("x")"}},
        Case{R"({"enum":[1,2,3,4],"not":{"not":{"multipleOf":2}}})", {"2", "4"}, {"1", "3"}},
        Case{R"({"enum":[1,2,[3],{"a":1}],"not":{"anyOf":[{"const":2},{"type":"object"}]}})",
             {"1", "[3]"},
             {"2", R"({"a":1})"}},
        Case{R"({"type":"object","properties":{"a":{"const":1}},"unevaluatedProperties":false})",
             {"{}", R"({"a":1})"},
             {R"({"b":1})"}}));

// Numbers against bounds with fractions, and steps.
INSTANTIATE_TEST_SUITE_P(
    Numbers, SchemaTakes,
    ::testing::Values(
        Case{R"({"type":"number","minimum":0.1,"maximum":0.9})",
             {"0.1", "0.10", "0.5", "0.9", "0.900", "0.8999"},
             {"0", "0.09", "0.91", "0.9001", "1", "1e-1"}},
        Case{R"({"type":"number","exclusiveMinimum":0.1,"exclusiveMaximum":0.3})",
             {"0.2", "0.11", "0.29"},
             {"0.1", "0.10", "0.3", "0.30"}},
        Case{R"({"type":"number","minimum":-1.5,"maximum":2.25})",
             {"-1.5", "-1.25", "0", "0.0", "2", "2.0", "2.25", "-0.5", "1e-1"},
             {"-1.6", "-2", "2.26", "3"}},
        Case{R"({"type":"number","minimum":2.5})",
             {"2.5", "3", "3.0", "10.75", "3e2", "2.5e+1"},
             {"2.4", "2", "-3", "3e-1"}},
        Case{R"({"type":"number","exclusiveMinimum":0})",
             {"0.1", "1e-3", "5", "1E2"},
             {"0", "0.0", "0e1", "-1"}},
        Case{R"({"type":"number","multipleOf":0.05,"minimum":0.1,"maximum":1})",
             {"0.1", "0.15", "0.10", "1", "1.0", "0.95"},
             {"0.05", "0.12", "1.05", "0"}},
        Case{R"({"type":"number","allOf":[{"multipleOf":0.5},{"multipleOf":0.75}]})",
             {"0", "1.5", "3", "-4.5"},
             {"0.5", "0.75", "1"}},
        Case{R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4", "2.0"}}));

// Patterns are searched for, and anchored only where they say so.
struct PatternCase {
  std::string pattern;
  std::vector<std::string> taken;  // as the string, without quotes
  std::vector<std::string> refused;
};

class PatternTakes : public ::testing::TestWithParam<PatternCase> {};

TEST_P(PatternTakes, WhatItMatches) {
  const std::string schema = R"({"type":"string","pattern":)" + json_quoted(GetParam().pattern) + "}";
  const auto grammar = json_schema_form(AnswerStart::plain, json(schema));
  ASSERT_TRUE(grammar.ok()) << grammar.error().text;
  for (const std::string& text : GetParam().taken) EXPECT_TRUE(takes(*grammar, json_quoted(text))) << text;
  for (const std::string& text : GetParam().refused) EXPECT_FALSE(takes(*grammar, json_quoted(text))) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, PatternTakes,
    ::testing::Values(
        PatternCase{"b", {"b", "abc", "\n\"b\"\\"}, {"", "a", "B"}}, PatternCase{"^b", {"b", "bc"}, {"ab"}},
        PatternCase{"b$", {"b", "ab"}, {"bc"}}, PatternCase{"^a|b$", {"ac", "cb"}, {"ca", "bc"}},
        PatternCase{"^$|^x$", {"", "x"}, {"y"}},
        PatternCase{"^[^a-c]{2,3}$", {"de", "\xC3\xA9\"\n"}, {"d", "defg", "da"}},
        PatternCase{"^.$", {"a", "\xF0\x9F\x98\x80"}, {"\n", "ab", "\xE2\x80\xA8"}},
        PatternCase{"^\\d+\\.\\w\\s$", {"12.a\t", "1._\xC2\xA0"}, {"12a ", ".a "}},
        PatternCase{"^\\u00e9\\x41[\\u{1F600}-\\u{1F602}]$",
                    {"\xC3\xA9"
                     "A\xF0\x9F\x98\x81"},
                    {"\xC3\xA9"
                     "A"}},
        PatternCase{"^(?<word>ab)+?c{2}$", {"abcc", "ababcc"}, {"cc", "abc"}},
        PatternCase{"^(a{2}){2,}$", {"aaaa", "aaaaaa"}, {"aa", "aaaaa"}},
        PatternCase{"^a{b$", {"a{b"}, {"ab"}},
        PatternCase{"^(?!.*--)(?=.*[0-9])[a-z0-9-]+$", {"a1", "a-1"}, {"a", "a--1", "1_"}},
        PatternCase{"^(?!admin$)[a-z]+$", {"adminx", "adm", "user"}, {"admin", ""}},
        PatternCase{"^a(?=b|c)[a-z]d$", {"abd", "acd"}, {"add", "ab"}}, PatternCase{"(?!a)^b", {"b"}, {"ab"}},
        PatternCase{"^(?!\\.+(?:\\/|$))[a-z.\\/]+$", {"a.", ".a", "a./"}, {"..", "./a", ""}},
        PatternCase{
            "^\\p{Lu}\\P{L}[\\p{Script=Greek}\\d]$", {"A-\xCE\xB1", "\xC3\x84 7"}, {"a-1", "AB1", "A-b"}},
        PatternCase{"^\\p{Letter}+$", {"a\xC3\xA9\xE4\xB8\xAD"}, {"1", "a1"}},
        PatternCase{"^[\\]\\\\^-]+$", {"]\\^-"}, {"a"}}));

struct Refusal {
  std::string schema;
  std::string names;  // what the error must say
};

class SchemaRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(SchemaRefuses, ByName) {
  const auto grammar = json_schema_form(AnswerStart::plain, json(GetParam().schema));
  ASSERT_FALSE(grammar.ok());
  EXPECT_NE(grammar.error().text.find(GetParam().names), std::string::npos) << grammar.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    Keywords, SchemaRefuses,
    ::testing::Values(
        Refusal{R"({"type":"array","uniqueItems":true})", "'uniqueItems'"},
        Refusal{R"({"type":"string","pattern":"(?<=a)b"})", "'pattern'"},
        Refusal{R"({"type":"string","pattern":"(a)\\1"})", "reference back"},
        Refusal{R"({"type":"string","pattern":"\\bword"})", "word boundary"},
        Refusal{R"({"type":"string","pattern":"(?:(?!a)b)*"})", "lookahead"},
        Refusal{R"({"type":"string","pattern":"(?!a$b)c"})", "'$' before the end of a lookahead"},
        Refusal{R"({"type":"string","pattern":"\\p{Script=None}"})", "'Script=None'"},
        Refusal{R"({"type":"string","pattern":"(a"})", "no regular expression"},
        Refusal{R"({"type":"string","pattern":"^a$","minLength":2})", "admits no value"},
        Refusal{R"({"type":"object","properties":{"x":{"type":"integer","multipleOf":0}}})",
                "'multipleOf' at '#/properties/x'"},
        Refusal{R"({"type":"number","multipleOf":3.14159265358979})", "'multipleOf'"},
        Refusal{R"({"type":"integer","multipleOf":7,"minimum":1,"maximum":6})", "admits no value"},
        Refusal{R"({"type":"object","minProperties":2})", "'minProperties'"},
        Refusal{R"({"type":"object","properties":{"a":{}},"minProperties":2})", "admits no value"},
        Refusal{R"({"type":"object","required":["b"],"propertyNames":{"pattern":"^a"}})", "admits no value"},
        Refusal{R"({"allOf":[{"type":"integer"},{"type":"string"}]})", "'#' admits no value"},
        Refusal{R"({"allOf":[{"pattern":["a"]},{}]})", "'pattern' at '#/allOf/0'"},
        Refusal{R"({"not":{}})", "'#' admits no value"}, Refusal{R"({"not":{"uniqueItems":true}})", "'not'"},
        Refusal{R"({"type":"integer","not":{"const":3}})", "'not' refuses number 3"},
        Refusal{R"({"unevaluatedItems":false,"contains":{"const":1}})", "'unevaluatedItems'"},
        Refusal{R"({"type":"integer","multipleOf":3e-13})", "'multipleOf'"},
        Refusal{R"({"$ref":"http://other.example/schema"})", "'$ref'"},
        Refusal{R"({"$ref":"#/$defs/none"})", "'$ref'"}, Refusal{R"({"$ref":"#"})", "itself"},
        Refusal{R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "itself"},
        Refusal{R"({"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]})", "nothing ever ends"},
        Refusal{R"({"type":"set"})", "'type'"}, Refusal{R"({"type":"string","minLength":-1})", "'minLength'"},
        Refusal{R"({"type":"string","minLength":3,"maxLength":2})", "admits no value"},
        Refusal{R"({"type":"integer","minimum":3,"maximum":2})", "admits no value"},
        Refusal{R"({"enum":[]})", "admits no value"}, Refusal{R"([])", "wanted an object"},
        Refusal{R"({"type":"object","properties":{"x":[]}})", "#/properties/x"}));

TEST(AnswerForm, MembersInAnyOrderAndUnlistedOnes) {
  const JsonValue schema = json(
      R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a"],"maxProperties":3})");
  const auto listed = json_schema_form(AnswerStart::plain, schema);
  const auto any_order = json_schema_form(AnswerStart::plain, schema, {.order = MemberOrder::any});
  const auto unlisted = json_schema_form(AnswerStart::plain, schema, {.unlisted = true});
  ASSERT_TRUE(listed.ok() && any_order.ok() && unlisted.ok());
  EXPECT_FALSE(takes(*listed, R"({"b":2,"a":1})"));
  EXPECT_TRUE(takes(*any_order, R"({"b":2,"a":1})"));
  EXPECT_TRUE(takes(*any_order, R"({"a":1})"));
  EXPECT_FALSE(takes(*any_order, R"({"b":2})"));
  EXPECT_FALSE(takes(*any_order, R"({"a":1,"a":1})"));
  EXPECT_FALSE(takes(*any_order, R"({"a":1,"c":3})"));
  EXPECT_FALSE(takes(*listed, R"({"a":1,"c":3})"));
  EXPECT_TRUE(takes(*unlisted, R"({"a":1,"c":3,"d":[]})"));
  EXPECT_FALSE(takes(*unlisted, R"({"a":1,"b":2,"c":3,"d":4})"));
  EXPECT_FALSE(takes(*unlisted, R"({"a":1,"b":3})"));
}

// What cannot be kept asks for nothing; the keywords beside it are kept, and it is named.
TEST(AnswerForm, OnlyWhatCannotBeKeptIsLoosened) {
  const JsonValue schema = json(
      R"({"type":"object","properties":{"p":{"type":"string","pattern":"(a)\\1","maxLength":2},"n":{"type":"integer"},)"
      R"("u":{"type":"array","uniqueItems":true,"items":{"type":"null"}}},"required":["n"]})");
  Budget budget;
  const auto grammar = std::make_shared<Grammar>(budget);
  JsonRules rules(*grammar);
  Loosened loosened;
  const auto rule = SchemaCompiler(schema, *grammar, rules, budget, {.loosened = &loosened}).compile();
  ASSERT_TRUE(rule.ok()) << rule.error().text;
  ASSERT_TRUE(grammar->finish(*rule).ok());
  EXPECT_TRUE(takes(grammar, R"({"p":"xy","n":1,"u":[null,null]})"));
  EXPECT_FALSE(takes(grammar, R"({"p":"xyz","n":1})"));
  EXPECT_FALSE(takes(grammar, R"({"p":"xy"})"));
  EXPECT_FALSE(takes(grammar, R"({"n":1,"u":[1]})"));
  const auto texts = loosened.texts();
  ASSERT_EQ(texts.size(), 2u);
  for (const std::string& text : texts) {
    const bool named = text.find("'pattern' at '#/properties/p'") != std::string::npos ||
                       text.find("'uniqueItems' at '#/properties/u'") != std::string::npos;
    EXPECT_TRUE(named) << text;
  }
}

TEST(AnswerForm, StartsAfterTheThinkBlock) {
  const JsonValue schema = json(R"({"type":"integer"})");
  const auto open = json_schema_form(AnswerStart::open_think, schema);
  ASSERT_TRUE(open.ok());
  EXPECT_TRUE(takes(*open, ">so 1 < 2 </thin or <</think>5"));
  EXPECT_TRUE(takes(*open, "</think>\n\n5"));
  EXPECT_FALSE(takes(*open, ">still thinking 5"));
  EXPECT_FALSE(takes(*open, "</think>x"));
  EXPECT_FALSE(takes(*open, "</think>5</think>5"));
  const auto tag = json_schema_form(AnswerStart::open_tag, schema);
  ASSERT_TRUE(tag.ok());
  EXPECT_TRUE(takes(*tag, ">\n5"));
  EXPECT_FALSE(takes(*tag, "5"));
}

TEST(AnswerForm, AnyObject) {
  const auto grammar = json_object_form(AnswerStart::plain);
  ASSERT_TRUE(grammar.ok());
  EXPECT_TRUE(takes(*grammar, R"({"a":[1,2,{"b":"c"}],"d":{}})"));
  EXPECT_FALSE(takes(*grammar, "[]"));
  EXPECT_FALSE(takes(*grammar, R"({"a": 1})"));
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += R"({"a":)";
  EXPECT_FALSE(takes(*grammar, deep + "1" + std::string(40, '}')));
}

TEST(AnswerForm, ToolCalls) {
  const std::vector<CallableTool> tools = {
      {"add", json(R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]})")},
      {"now", JsonValue()}};
  const std::string one = R"(<tool_call>{"name":"add","arguments":{"x":1}}</tool_call>)";
  const std::string other = R"(<tool_call>{"name":"now","arguments":{}}</tool_call>)";
  const auto several = tool_call_form(AnswerStart::plain, tools, true);
  const auto single = tool_call_form(AnswerStart::plain, tools, false);
  ASSERT_TRUE(several.ok() && single.ok());
  EXPECT_TRUE(takes(*several, " " + one));
  EXPECT_TRUE(takes(*several, one + "\n" + other));
  EXPECT_TRUE(takes(*single, other));
  EXPECT_FALSE(takes(*single, one + other));
  EXPECT_FALSE(takes(*several, R"(<tool_call>{"name":"sub","arguments":{}}</tool_call>)"));
  EXPECT_FALSE(takes(*several, "text"));
}

}  // namespace
}  // namespace fulmar::testing
