// Who may hold how many bytes of bodies, and for how long.
#include "net/client_budget.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "net/body_pace.h"

namespace fulmar::test {
namespace {

size_t take_all(ClientBudget& budget, const std::string& client) {
  size_t taken = 0;
  while (budget.take(client, 1)) taken++;
  return taken;
}

TEST(ClientBudget, WhoeverComesFindsAsMuchAsTheLastOneTook) {
  ClientBudget budget(1024);
  EXPECT_EQ(take_all(budget, "a"), 512u);
  EXPECT_EQ(take_all(budget, "b"), 256u);
  EXPECT_EQ(take_all(budget, "c"), 128u);
  EXPECT_EQ(take_all(budget, "a"), 0u);
  budget.give_back("b", 256);
  EXPECT_EQ(take_all(budget, "b"), 192u);
}

TEST(ClientBudget, NoOrderOfClientsExceedsItOrLosesAByte) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; round++) {
    ClientBudget budget(1 + random() % 1000);
    std::vector<size_t> own(5);
    for (int i = 0; i < 300; i++) {
      const size_t who = random() % own.size();
      const std::string client = std::to_string(who);
      const size_t bytes = random() % 200;
      if (random() % 2 == 0) {
        const size_t free = budget.most() - budget.held();
        const bool taken = budget.take(client, bytes);
        EXPECT_EQ(taken, bytes <= free && own[who] + bytes <= free - bytes);
        if (taken) own[who] += bytes;
      } else if (const size_t back = std::min(bytes, own[who]); true) {
        budget.give_back(client, back);
        own[who] -= back;
      }
      size_t sum = 0;
      for (const size_t each : own) sum += each;
      ASSERT_EQ(budget.held(), sum);
      ASSERT_LE(sum, budget.most());
      ASSERT_EQ(budget.held_by(client), own[who]);
    }
  }
}

TEST(ClientLease, GivesBackWhatItTookHoweverItMoves) {
  const auto budget = std::make_shared<ClientBudget>(1000);
  {
    ClientLease first(budget, "a");
    EXPECT_TRUE(first.grow(300));
    EXPECT_FALSE(first.grow(300));
    ClientLease second(std::move(first));
    ClientLease third;
    third = std::move(second);
    EXPECT_EQ(budget->held(), 300u);
    third.give_back();
    EXPECT_EQ(budget->held(), 0u);
    EXPECT_TRUE(third.grow(100));
  }
  EXPECT_EQ(budget->held(), 0u);
}

TEST(BodyPace, NobodyLivesOnWhatCameQuicklyBefore) {
  using std::chrono::seconds;
  const BodyPace::Clock::time_point start{};
  BodyPace pace(seconds(30), start);
  EXPECT_EQ(pace.share(), 30 * BodyPace::kBytesPerSecond);
  EXPECT_EQ(pace.deadline(), start + seconds(30));
  pace.came(pace.share() - 1, start + seconds(1));
  EXPECT_EQ(pace.deadline(), start + seconds(30));
  pace.came(100 * pace.share(), start + seconds(2));
  EXPECT_EQ(pace.deadline(), start + seconds(32));
  pace.came(1, start + seconds(31));  // a byte now and then is no progress
  EXPECT_EQ(pace.deadline(), start + seconds(32));
}

}  // namespace
}  // namespace fulmar::test
