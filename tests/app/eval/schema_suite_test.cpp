// Suites of schemas as texts, archives and samples, and what is made of their ids.
#include "app/eval/schema_suite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "app/eval/schema_eval.h"
#include "app/eval/schema_judge.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLine =
    R"({"id":"A---1","schema":{"type":"object"},"tests":[{"valid":true,"data":{"a":[1.0,-2e3],"b":"\u00e9,:"}},)"
    R"({"valid":false,"data":[]}]})";

// One file of an archive in the form of POSIX tar.
std::string archived(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header.replace(257, 5, "ustar");
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

TEST(SchemaSuite, InstancesAreWrittenInBothFormsAndNumbersAsTheyWere) {
  const auto cases = parse_schema_suite(std::string(kLine) + "\n\n", "x.jsonl");
  ASSERT_TRUE(cases.ok()) << cases.error().text;
  ASSERT_EQ(cases->size(), 1u);
  const SchemaCase& one = cases->front();
  EXPECT_EQ(one.id, "A---1");
  EXPECT_EQ(one.schema, R"({"type":"object"})");
  ASSERT_EQ(one.tests.size(), 2u);
  EXPECT_EQ(one.tests[0].compact, "{\"a\":[1.0,-2e3],\"b\":\"\u00e9,:\"}");
  EXPECT_EQ(one.tests[0].spaced, "{\"a\": [1.0, -2e3], \"b\": \"\u00e9,:\"}");
  EXPECT_EQ(one.tests[1].compact, "[]");
  EXPECT_FALSE(one.tests[1].valid);
}

// Readers of JSON have bounds on numbers; a suite may test just that.
TEST(SchemaSuite, NumbersMayHaveAnySize) {
  const std::string group =
      R"([{"description":"a d","schema":{"maximum":1e999},"tests":[{"description":"t","data":-123456789012345678901234567890,"valid":true}]}])";
  const auto cases = parse_schema_suite(archived("tests/draft2020-12/optional/bignum.json", group), "x.tar");
  ASSERT_TRUE(cases.ok()) << cases.error().text;
  EXPECT_EQ(cases->at(0).schema, R"({"maximum":1e999})");
  EXPECT_EQ(cases->at(0).tests.at(0).compact, "-123456789012345678901234567890");
  const std::string line =
      R"({"id":"a","schema":{},"tests":[{"valid":true,"data":123456789012345678901234567890}]})";
  EXPECT_TRUE(parse_schema_suite(line, "x.jsonl").ok());
  EXPECT_FALSE(parse_schema_suite(line.substr(0, line.size() - 1), "x.jsonl").ok());
}

TEST(SchemaSuite, ArchivesHoldGroupsByFile) {
  const std::string group =
      R"([{"description":"a d","schema":true,"tests":[{"description":"t","data":1,"valid":true}]}])";
  const std::string content = archived("tests/draft2020-12/optional/anchor.json", group) +
                              archived("tests/draft2020-12/LICENSE", "text") +
                              archived("tests/draft2020-12/items.json", group) + std::string(1024, '\0');
  const auto cases = parse_schema_suite(content, "x.tar");
  ASSERT_TRUE(cases.ok()) << cases.error().text;
  ASSERT_EQ(cases->size(), 2u);
  EXPECT_EQ(cases->at(0).id, "optional/anchor.json: a d");
  EXPECT_EQ(cases->at(1).id, "items.json: a d");
  EXPECT_EQ(part_of(cases->at(0).id), "optional");
  EXPECT_EQ(part_of(cases->at(1).id), "required");
  const auto cut = parse_schema_suite(content.substr(0, 600), "x.tar");
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(cut.error().text, HasSubstr("anchor.json"));
}

TEST(SchemaSuite, ErrorsNameTheLine) {
  for (const char* wrong :
       {"{", "[]", R"({"id":"a"})", R"({"id":"a","schema":{},"tests":[{"valid":true}]})"}) {
    const auto cases = parse_schema_suite(std::string(kLine) + "\n" + wrong, "x.jsonl");
    ASSERT_FALSE(cases.ok()) << wrong;
    EXPECT_THAT(cases.error().text, HasSubstr("'x.jsonl' line 2")) << wrong;
  }
  EXPECT_THAT(parse_schema_suite("", "x.jsonl").error().text, HasSubstr("no schemas"));
}

TEST(SchemaSuite, SamplesAreSpreadAndAlwaysTheSame) {
  std::vector<SchemaCase> cases(10);
  for (size_t i = 0; i < cases.size(); ++i) cases[i].id = std::to_string(i);
  const auto sample = sample_of(cases, 4);
  ASSERT_EQ(sample.size(), 4u);
  EXPECT_EQ(sample[0].id + sample[1].id + sample[2].id + sample[3].id, "0257");
  EXPECT_EQ(sample_of(cases, 20).size(), 10u);
}

TEST(SchemaSuite, PartsAreNamedByIds) {
  EXPECT_EQ(part_of("Github_easy---o12"), "Github_easy");
  EXPECT_EQ(part_of("BFCL_java_1"), "BFCL");
}

TEST(SchemaVerdict, SurvivesTheWayFromAProcess) {
  SchemaVerdict verdict{.id = "a\"b", .status = SchemaVerdict::Status::fail};
  verdict.tests = {{true, {.whole = true}, {.bytes = 7}}, {false, {.whole = true}, {}}};
  verdict.compile = 12.5;
  verdict.masks = {1, 2.5};
  const auto read = verdict_of(json_of(verdict, true));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, verdict.id);
  EXPECT_EQ(read->status, verdict.status);
  EXPECT_EQ(read->masks, verdict.masks);
  EXPECT_EQ(read->tests[0].spaced.bytes, 7u);
  EXPECT_FALSE(read->tests[0].right());
  EXPECT_EQ(read->invalid_taken(), 1u);
  EXPECT_EQ(verdict_of("{}"), std::nullopt);
}

// Each order of what may become of three cases: whatever happens to one, the others are judged.
TEST(JudgeApart, ACrashAndATimeOutConcernTheirCaseAlone) {
  using Status = SchemaVerdict::Status;
  const auto judge = [](const SchemaCase& one) {
    if (one.id == "crash") raise(SIGKILL);
    for (volatile int spin = 0; one.id == "slow";) spin = spin + 1;
    return SchemaVerdict{.id = one.id};
  };
  std::vector<std::string> order = {"crash", "fine", "slow"};
  do {
    std::vector<SchemaCase> cases(order.size());
    for (size_t i = 0; i < order.size(); ++i) cases[i].id = order[i];
    const auto verdicts = judge_apart(cases, judge, 1);
    ASSERT_TRUE(verdicts.ok()) << verdicts.error().text;
    ASSERT_EQ(verdicts->size(), order.size());
    for (const SchemaVerdict& verdict : *verdicts) {
      const Status wanted = verdict.id == "crash"  ? Status::crash
                            : verdict.id == "slow" ? Status::timeout
                                                   : Status::pass;
      EXPECT_EQ(verdict.status, wanted) << verdict.id;
    }
    EXPECT_EQ(verdicts->front().id, order.front());
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace
}  // namespace fulmar::testing
