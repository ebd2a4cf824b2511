#include "draft/ngram_drafter.h"

#include <gtest/gtest.h>

#include <random>

namespace fulmar {
namespace {

using Ids = std::vector<int32_t>;

Ids propose(const NgramDrafter& drafter, size_t most, NgramDrafter::Match* match = nullptr) {
  Ids draft{-7};  // what lies there is replaced
  const auto found = drafter.propose(most, draft);
  if (match != nullptr) *match = found;
  return draft;
}

// The specification: all earlier ends of the text, longest match first, the latest of equal ones.
Ids slow_proposal(const Ids& text, size_t most, size_t longest) {
  size_t best = 0, from = 0;
  for (size_t end = 1; end + 1 < text.size(); end++) {  // position of the match's last token
    size_t length = 0;
    while (length < longest && length <= end && text[end - length] == text[text.size() - 1 - length])
      length++;
    if (length >= kShortestMatch && length >= best) {
      best = length;
      from = end + 1;
    }
  }
  Ids draft;
  if (best == 0) return draft;
  for (size_t at = from; draft.size() < most; at++) {
    draft.push_back(at < text.size() ? text[at] : draft[at - text.size()]);
  }
  return draft;
}

TEST(NgramDrafter, TakesWhatFollowedTheLongestMatch) {
  const Ids prompt{1, 2, 3, 9, 9, 5, 2, 3, 7, 8, 0, 1, 2, 3};
  const NgramDrafter drafter({}, prompt);
  NgramDrafter::Match match;
  EXPECT_EQ(propose(drafter, 3, &match), (Ids{9, 9, 5})) << "1 2 3, although 2 3 came later";
  EXPECT_EQ(match.length, 3u);
  EXPECT_FALSE(match.predicted);
}

TEST(NgramDrafter, TakesTheLatestOfEqualMatches) {
  const NgramDrafter drafter({}, Ids{4, 2, 3, 9, 5, 2, 3, 7, 6, 2, 3});
  EXPECT_EQ(propose(drafter, 1), (Ids{7}));
}

TEST(NgramDrafter, OneTokenIsNoMatch) {
  const NgramDrafter drafter({}, Ids{1, 2, 3, 4, 9, 3});
  EXPECT_TRUE(propose(drafter, 4).empty());
  EXPECT_TRUE(propose(NgramDrafter({}, {}), 4).empty());
  EXPECT_TRUE(propose(NgramDrafter({}, Ids{1}), 4).empty());
}

TEST(NgramDrafter, APeriodGoesOnBeyondTheEnd) {
  const NgramDrafter drafter({}, Ids{7, 1, 2, 1, 2});
  EXPECT_EQ(propose(drafter, 7), (Ids{1, 2, 1, 2, 1, 2, 1}));
}

TEST(NgramDrafter, AsksForNoneGivesNone) {
  EXPECT_TRUE(propose(NgramDrafter({}, Ids{1, 2, 1, 2}), 0).empty());
}

TEST(NgramDrafter, TheOutputIsLookedThroughToo) {
  NgramDrafter drafter({}, Ids{5});
  for (const int32_t token : {1, 2, 3, 4, 1, 2}) drafter.append(token);
  EXPECT_EQ(propose(drafter, 2), (Ids{3, 4}));
}

TEST(NgramDrafter, APredictionIsFollowedFromTheFirstTokenAndFoundAgain) {
  NgramDrafter drafter(Ids{10, 11, 12, 13, 14, 15}, Ids{1, 2});
  NgramDrafter::Match match;
  EXPECT_EQ(propose(drafter, 2, &match), (Ids{10, 11}));
  EXPECT_TRUE(match.predicted);
  drafter.append(10);
  EXPECT_EQ(propose(drafter, 2), (Ids{11, 12}));
  drafter.append(99);  // an edit
  EXPECT_TRUE(propose(drafter, 2).empty());
  drafter.append(12);
  drafter.append(13);
  EXPECT_EQ(propose(drafter, 4, &match), (Ids{14, 15})) << "and never beyond its end";
  EXPECT_TRUE(match.predicted);
  for (const int32_t token : {14, 15}) drafter.append(token);
  EXPECT_TRUE(propose(drafter, 4).empty());
}

TEST(NgramDrafter, IsWhatASearchThroughAllTheTextFinds) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; round++) {
    const int ids = 2 + round % 7;
    Ids text;
    for (int i = 0; i < 5; i++) text.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(ids)));
    NgramDrafter drafter({}, text, {.window = 1000, .longest = 6, .candidates = 1000});
    for (int i = 0; i < 300; i++) {
      ASSERT_EQ(propose(drafter, 5), slow_proposal(text, 5, 6)) << "round " << round << " token " << i;
      text.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(ids)));
      drafter.append(text.back());
    }
  }
}

TEST(NgramDrafter, ForgetsWhatLiesOutsideItsWindow) {
  NgramDrafter drafter(Ids{500, 501}, {}, {.window = 64});
  for (const int32_t token : {1000, 1001, 1002}) drafter.append(token);
  for (int32_t i = 0; i < 1000; i++) drafter.append(i);
  drafter.append(1000);
  drafter.append(1001);
  EXPECT_TRUE(propose(drafter, 2).empty()) << "a thousand tokens ago";
  for (const int32_t token : {980, 981}) drafter.append(token);
  EXPECT_EQ(propose(drafter, 2), (Ids{982, 983}));
}

}  // namespace
}  // namespace fulmar
