#include "load/workload.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <set>

namespace fulmar {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(Workload, ArrivalsHaveTheirRate) {
  const auto times = arrival_times(10'000, 4, 1);
  EXPECT_EQ(times.front(), 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 2500, 100);
  EXPECT_EQ(times, arrival_times(10'000, 4, 1));
  EXPECT_NE(times, arrival_times(10'000, 4, 2));
}

TEST(Workload, AnInfiniteRateSendsAllAtOnce) {
  EXPECT_THAT(arrival_times(3, std::numeric_limits<double>::infinity(), 1), Each(0));
}

TEST(Workload, LengthsAreKeptByTheRule) {
  EXPECT_TRUE(is_kept({4, 4}));
  EXPECT_TRUE(is_kept({1024, 1024}));
  EXPECT_FALSE(is_kept({3, 100}));
  EXPECT_FALSE(is_kept({100, 3}));
  EXPECT_FALSE(is_kept({1025, 4}));
  EXPECT_FALSE(is_kept({1000, 1049}));
  const auto lengths = chat_lengths(1000, 1);
  ASSERT_EQ(lengths.size(), 1000u);
  for (const RequestLength& length : lengths) EXPECT_TRUE(is_kept(length));
  const auto long_prompts =
      std::count_if(lengths.begin(), lengths.end(), [](const auto& length) { return length.prompt > 64; });
  EXPECT_NEAR(static_cast<double>(long_prompts), 500, 60);
}

TEST(Workload, FillerHasItsLength) {
  EXPECT_EQ(filler_text(0, 1), "");
  for (const size_t bytes : {1u, 2u, 7u, 500u}) {
    const std::string text = filler_text(bytes, 1);
    EXPECT_EQ(text.size(), bytes);
    EXPECT_NE(text.back(), ' ');
  }
  EXPECT_NE(filler_text(500, 1), filler_text(500, 2));
}

TEST(Workload, ConversationsOfTwoTurnsAreTaken) {
  const auto pairs = parse_conversations(
      R"([{"conversations":[{"value":"q"},{"value":"a"},{"value":"more"}]},)"
      R"({"conversations":[{"value":"alone"}]},{"id":1},{"conversations":[{"value":1},{"value":"a"}]}])");
  ASSERT_TRUE(pairs.ok()) << pairs.error().text;
  EXPECT_THAT(*pairs, ElementsAre(Pair("q", "a")));
  EXPECT_THAT(parse_conversations("{}").error().text, HasSubstr("wanted an array"));
  EXPECT_FALSE(parse_conversations("[").ok());
}

TEST(Workload, ShufflesKeepEverything) {
  const auto order = shuffled(100, 1);
  EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), 100u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order, shuffled(100, 1));
}

}  // namespace
}  // namespace fulmar
