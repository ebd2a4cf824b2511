// The table of keywords in the documents says what the compiler does.
#include "grammar/schema_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "grammar/answer_form.h"
#include "grammar/schema_shape.h"
#include "net/json.h"
#include "support/document_section.h"

namespace fulmar::testing {
namespace {

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> list;
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(", ", at), words.size());
    list.emplace_back(words.substr(at, end - at));
    at = end + 2;
  }
  return list;
}

// The keywords that assert in drafts 4 to 2020-12.
const std::set<std::string> kDrafts = {"type",
                                       "const",
                                       "enum",
                                       "allOf",
                                       "anyOf",
                                       "oneOf",
                                       "not",
                                       "if",
                                       "then",
                                       "else",
                                       "$ref",
                                       "$dynamicRef",
                                       "$recursiveRef",
                                       "dependencies",
                                       "dependentRequired",
                                       "dependentSchemas",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "patternProperties",
                                       "propertyNames",
                                       "unevaluatedProperties",
                                       "unevaluatedItems",
                                       "minProperties",
                                       "maxProperties",
                                       "items",
                                       "prefixItems",
                                       "additionalItems",
                                       "minItems",
                                       "maxItems",
                                       "contains",
                                       "minContains",
                                       "maxContains",
                                       "uniqueItems",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       "contentEncoding",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "multipleOf"};

TEST(SchemaWords, EachKeywordHasOneRow) {
  std::multiset<std::string> listed;
  for (const SchemaWord& word : schema_words()) {
    for (const std::string& one : split(word.words)) listed.insert(one);
  }
  EXPECT_EQ(listed, std::multiset<std::string>(kDrafts.begin(), kDrafts.end()));
}

TEST(SchemaWords, TheCompilerReadsNoOthers) {
  for (const std::string& word : kDrafts) {
    const bool helper = word == "then" || word == "else" || word == "minContains" || word == "maxContains";
    EXPECT_EQ(asserts(word), !helper) << word;
  }
  for (const char* word : {"title", "id", "$comment", "x-order", "javaType", "default"})
    EXPECT_FALSE(asserts(word));
}

TEST(SchemaWords, ExamplesAreKeptOrRefusedAndLoosened) {
  for (const SchemaWord& word : schema_words()) {
    const auto kept = parse_json(word.kept_example);
    ASSERT_TRUE(kept.ok()) << word.kept_example;
    const auto form = json_schema_form(AnswerStart::plain, *kept);
    EXPECT_TRUE(form.ok()) << word.kept_example << ": " << form.error().text;
    EXPECT_LE(word.refused_example.empty(), word.refused.empty() || word.refused_example.empty())
        << word.words;
    if (word.refused_example.empty()) continue;
    const auto refused = parse_json(word.refused_example);
    ASSERT_TRUE(refused.ok()) << word.refused_example;
    const auto strict = json_schema_form(AnswerStart::plain, *refused);
    EXPECT_FALSE(strict.ok()) << word.refused_example;
    Loosened loosened;
    const auto loose =
        json_schema_form(AnswerStart::plain, *refused, {.strict = false, .loosened = &loosened});
    EXPECT_TRUE(loose.ok()) << word.refused_example << ": " << loose.error().text;
    EXPECT_FALSE(loosened.texts().empty()) << word.refused_example;
  }
}

TEST(SchemaWords, AreWhatTheDocumentSays) {
  expect_section("structured-output.md", "keywords", schema_words_table());
}

}  // namespace
}  // namespace fulmar::testing
