// Functions of a public suite as calls that have to be made, strict and not. The suite is data of others:
// without it beside the checkout the test is skipped.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/eval/schema_suite.h"
#include "grammar/answer_form.h"
#include "net/json.h"
#include "support/folders.h"

namespace fulmar::testing {
namespace {

// A schema of this part is an object with a member for each function, or a choice of such objects.
void add_tools(const JsonValue& schema, bool strict, std::vector<CallableTool>& tools) {
  if (const JsonValue* choices = schema.find("anyOf"); choices && choices->is_array()) {
    for (const JsonValue& choice : choices->as_array()) add_tools(choice, strict, tools);
  }
  const JsonValue* functions = schema.find("properties");
  if (!functions || !functions->is_object()) return;
  for (const auto& [name, parameters] : functions->as_object().members()) {
    tools.push_back({name, parameters, strict});
  }
}

TEST(ToolSets, OfAPublicSuiteCompile) {
  const auto path = support::source_folder().parent_path() / "shared/suites/maskbench-a.jsonl.xz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const auto cases = read_schema_suite(path.string());
  ASSERT_TRUE(cases.ok()) << cases.error().text;
  size_t sets = 0;
  for (const SchemaCase& one : *cases) {
    if (part_of(one.id) != "BFCL") continue;
    ++sets;
    for (const bool strict : {true, false}) {
      const auto schema = parse_json(one.schema);
      ASSERT_TRUE(schema.ok()) << one.id;
      std::vector<CallableTool> tools;
      add_tools(*schema, strict, tools);
      ASSERT_FALSE(tools.empty()) << one.id;
      Loosened loosened;
      const auto form = tool_call_form(AnswerStart::plain, tools, true, kTaggedCall, {.loosened = &loosened});
      EXPECT_TRUE(form.ok()) << one.id << (form.ok() ? "" : ": " + form.error().text);
      EXPECT_TRUE(loosened.texts().empty()) << one.id << ": " << loosened.texts().front();
    }
  }
  EXPECT_GE(sets, 500u);
}

}  // namespace
}  // namespace fulmar::testing
