#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <random>

namespace fulmar {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixIndex, FindsTheLongestCoveredBeginning) {
  PrefixIndex index;
  index.insert(Tokens{1, 2, 3}, 10);
  index.insert(Tokens{1, 2, 3, 4, 5}, 11);
  const auto found = index.find(Tokens{1, 2, 3, 4, 9}, 100);
  ASSERT_TRUE(found.match);
  EXPECT_EQ(found.match->id, 10u);
  EXPECT_EQ(found.match->length, 3u);
  EXPECT_EQ(found.shared, 4u) << "the tree knows 1 2 3 4, though no snapshot lies there";
}

TEST(PrefixIndex, LooksNoDeeperThanTheLimit) {
  PrefixIndex index;
  index.insert(Tokens{1, 2, 3}, 10);
  EXPECT_FALSE(index.find(Tokens{1, 2, 3}, 2).match);
  EXPECT_TRUE(index.find(Tokens{1, 2, 3}, 3).match);
}

TEST(PrefixIndex, ReplacesASnapshotAtTheSamePlace) {
  PrefixIndex index;
  EXPECT_FALSE(index.insert(Tokens{7, 8}, 1));
  EXPECT_EQ(index.insert(Tokens{7, 8}, 2), 1u);
  EXPECT_EQ(index.size(), 1u);
  EXPECT_FALSE(index.erase(1));
}

// Random inserts and erases against the plain definition.
TEST(PrefixIndex, AgreesWithAListOfSequences) {
  std::mt19937 random(4);
  PrefixIndex index;
  std::map<Tokens, PrefixIndex::Id> plain;
  const auto sequence = [&] {
    Tokens tokens(random() % 7);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2);
    return tokens;
  };
  for (PrefixIndex::Id id = 1; id < 4000; id++) {
    const Tokens tokens = sequence();
    if (random() % 3 != 0) {
      index.insert(tokens, id);
      plain[tokens] = id;
    } else if (const auto known = plain.find(tokens); known != plain.end()) {
      EXPECT_TRUE(index.erase(known->second));
      plain.erase(known);
    }
    const Tokens query = sequence();
    std::optional<PrefixIndex::Id> longest;
    for (size_t length = 0; length <= query.size(); length++) {
      const auto known = plain.find(Tokens(query.begin(), query.begin() + static_cast<ptrdiff_t>(length)));
      if (known != plain.end() && length > 0) longest = known->second;
    }
    const auto found = index.find(query, query.size());
    ASSERT_EQ(found.match.has_value(), longest.has_value());
    if (longest) {
      ASSERT_EQ(found.match->id, *longest);
    }
    ASSERT_EQ(index.size(), plain.size());
  }
}

}  // namespace
}  // namespace fulmar
