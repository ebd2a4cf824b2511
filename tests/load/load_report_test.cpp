#include "load/load_report.h"

#include <gmock/gmock.h>

namespace fulmar {
namespace {

using testing::HasSubstr;

AnswerRecord answer(double sent, std::vector<double> text_at, double ended) {
  return {.sent_at = sent,
          .text_at = std::move(text_at),
          .ended_at = ended,
          .done = true,
          .finish_reason = "length"};
}

TEST(LoadReport, FollowsTheDefinitions) {
  const std::vector<AnswerRecord> records = {answer(0, {0.5, 0.6, 0.8}, 1.0),
                                             answer(2, {2.1, 2.2, 2.3}, 2.5)};
  const std::vector<int64_t> lengths = {3, 3};
  const LoadFigures figures = load_figures(records, lengths);
  EXPECT_EQ(figures.successes, 2u);
  EXPECT_EQ(figures.exact, 2u);
  EXPECT_EQ(figures.answer_tokens, 6);
  EXPECT_DOUBLE_EQ(figures.seconds, 2.5);
  EXPECT_DOUBLE_EQ(figures.drain_seconds, 0.5);
  EXPECT_NEAR(figures.e2e.mean, 750, 1e-9);
  EXPECT_NEAR(figures.ttft.mean, 300, 1e-9);
  EXPECT_EQ(figures.itl.count, 4u);
  EXPECT_NEAR(figures.itl.mean, 125, 1e-9);
  EXPECT_NEAR(figures.tpot.mean, (250.0 + 200.0) / 2, 1e-9);
  EXPECT_EQ(figures.most_in_flight, 1u);
}

TEST(LoadReport, FailuresAreToldAndCountNowhere) {
  AnswerRecord broken = answer(0, {0.1}, 5);
  broken.fault = "HTTP 503";
  AnswerRecord cut = answer(0, {0.1}, 1);
  cut.finish_reason = "stop";
  const std::vector<AnswerRecord> records = {broken, cut, answer(0, {}, 1)};
  const LoadFigures figures = load_figures(records, std::vector<int64_t>{4, 4, 4});
  EXPECT_EQ(figures.successes, 1u);
  EXPECT_EQ(figures.exact, 0u);
  EXPECT_EQ(figures.e2e.count, 1u);
  EXPECT_EQ(figures.most_in_flight, 3u);
  ASSERT_EQ(figures.faults.size(), 2u);
  EXPECT_EQ(figures.faults[0], "request 0: HTTP 503");
  const std::string table = load_table(figures);
  EXPECT_THAT(table, HasSubstr("1 of 3"));
  EXPECT_THAT(table, HasSubstr("exact lengths         0 of 1"));
}

TEST(LoadReport, NothingSentGivesZeros) {
  EXPECT_EQ(load_figures({}, {}).seconds, 0);
  EXPECT_EQ(steady_rate({}, {}).tokens_per_second, 0);
}

TEST(LoadReport, TheSteadyRateCountsWhileAllStreamsRun) {
  // All run from 2 (second stream's first text) to 5 (first stream's last): texts at 3, 4, 5 and at 3, 4, 5.
  const std::vector<AnswerRecord> records = {answer(0, {1, 2, 3, 4, 5}, 5), answer(0, {2, 3, 4, 5, 6, 7}, 7)};
  const SteadyRate rate = steady_rate(records, std::vector<int64_t>{5, 6});
  EXPECT_DOUBLE_EQ(rate.seconds, 3);
  EXPECT_DOUBLE_EQ(rate.tokens_per_second, 2);
  // Two tokens behind each event of the second stream.
  EXPECT_DOUBLE_EQ(steady_rate(records, std::vector<int64_t>{5, 12}).tokens_per_second, 3);
}

TEST(LoadReport, StreamsThatNeverMetHaveNoSteadyRate) {
  const std::vector<AnswerRecord> records = {answer(0, {1, 2}, 2), answer(0, {3, 4}, 4)};
  EXPECT_EQ(steady_rate(records, std::vector<int64_t>{2, 2}).tokens_per_second, 0);
}

}  // namespace
}  // namespace fulmar
