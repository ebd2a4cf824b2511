// Who gives way where several share a room.
#include "cache/fair_eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace fulmar {
namespace {

TEST(FairEviction, TheOldestOfWhoHoldsMostGoesFirst) {
  EXPECT_EQ(victim_of(std::vector<KeptThing>{{"a", 1}}), 0u);
  EXPECT_EQ(victim_of(std::vector<KeptThing>{{"a", 1}, {"b", 1}, {"b", 1}}), 1u);
  EXPECT_EQ(victim_of(std::vector<KeptThing>{{"a", 3}, {"b", 1}, {"b", 1}}), 0u) << "size counts";
  EXPECT_EQ(victim_of(std::vector<KeptThing>{{"a", 1}, {"b", 1}}), 0u) << "of equals the oldest";
}

// Random owners put random things into a room of random size.
TEST(FairEviction, AnEvenShareIsSafeWhileAnotherHoldsMore) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const int64_t room = draw(1, 60), owners = draw(1, 6);
    std::vector<std::string> names;
    for (int64_t i = 0; i < owners; ++i) names.push_back("owner " + std::to_string(i));
    std::vector<KeptThing> things;
    int64_t sum = 0;
    for (int step = 0; step < 100; ++step) {
      // The first owner puts most.
      const auto who = static_cast<size_t>(draw(0, 1) == 0 ? 0 : draw(0, owners - 1));
      things.push_back({names[who], draw(1, 5)});
      sum += things.back().size;
      while (sum > room && !things.empty()) {
        std::map<std::string_view, int64_t> held;
        for (const KeptThing& thing : things) held[thing.owner] += thing.size;
        int64_t most = 0;
        for (const auto& [owner, size] : held) most = std::max(most, size);
        const size_t next = victim_of(things);
        const KeptThing gone = things.at(next);
        const bool within_share = held[gone.owner] * static_cast<int64_t>(held.size()) <= sum;
        ASSERT_FALSE(within_share && most > held[gone.owner]) << "round " << round << " step " << step;
        for (size_t i = 0; i < next; ++i) ASSERT_NE(things[i].owner, gone.owner) << "an older one stays";
        sum -= gone.size;
        things.erase(things.begin() + static_cast<ptrdiff_t>(next));
      }
    }
  }
}

}  // namespace
}  // namespace fulmar
