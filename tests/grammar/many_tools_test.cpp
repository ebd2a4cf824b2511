// What many functions at once cost to compile, in counted work: time would depend on the machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "grammar/answer_form.h"
#include "net/json.h"

namespace fulmar::testing {
namespace {

// A function of about 1 KB: texts, numbers, lists and an object, as clients describe them.
CallableTool made_up_tool(int number, bool strict) {
  std::string properties;
  for (int i = 0; i < 6; ++i) {
    const std::string name = fmt::format("argument_{}_{}", number, i);
    const std::string text =
        fmt::format("What the function does with {}, in a sentence of some length", name);
    properties += fmt::format(R"({}"{}":{{"description":"{}",)", i > 0 ? "," : "", name, text);
    switch (i % 3) {
      case 0:
        properties += R"("type":"string","maxLength":200})";
        break;
      case 1:
        properties += R"("type":"integer","minimum":0,"maximum":1000})";
        break;
      default:
        properties += R"("type":"array","items":{"enum":["one","two","three"]},"maxItems":10})";
    }
  }
  const auto schema = parse_json(fmt::format(
      R"({{"type":"object","properties":{{{}}},"required":["argument_{}_0"]}})", properties, number));
  EXPECT_TRUE(schema.ok());
  return {fmt::format("function_{}", number), *schema, strict};
}

TEST(ManyTools, CostLittleWorkEach) {
  for (const bool strict : {true, false}) {
    std::vector<CallableTool> tools;
    for (int i = 0; i < 117; ++i) tools.push_back(made_up_tool(i, strict));
    Budget budget;
    const auto form = tool_call_form(AnswerStart::plain, tools, true, kTaggedCall, {.budget = &budget});
    ASSERT_TRUE(form.ok()) << form.error().text;
    EXPECT_GE(budget.used(Budget::Item::bytes), 117u * 900);
    // One unit is a comparison or a place: 1,000,000 of them are some 10 ms.
    EXPECT_LE(budget.used(Budget::Item::work), 1'000'000u);
    EXPECT_LE(budget.used(Budget::Item::schemas), 117u * 9);
  }
}

}  // namespace
}  // namespace fulmar::testing
