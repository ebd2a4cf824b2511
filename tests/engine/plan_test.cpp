#include "engine/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace fulmar {
namespace {

using Feeds = std::vector<int64_t>;

const auto as_they_are = [](int64_t rows) { return rows; };

PlanItem decoding() { return {.to_feed = 1, .decoding = true}; }
PlanItem prompt(int64_t tokens, int64_t until_pause = 0) {
  return {.to_feed = tokens, .until_pause = until_pause};
}

TEST(Plan, EveryRunningStreamAdvancesBesideALongPrompt) {
  const std::vector<PlanItem> items = {decoding(), prompt(4000), decoding()};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256}), (Feeds{1, 256, 1}));
}

TEST(Plan, AStreamWithManyTokensReadyTakesNoneOfTheOthers) {
  const PlanItem ready{.to_feed = 16, .decoding = true};
  EXPECT_EQ(plan_step(std::vector{ready, ready, decoding(), ready}, {.max_rows = 20}), (Feeds{16, 2, 1, 1}));
}

TEST(Plan, PromptsAreServedInOrderOfArrival) {
  const std::vector<PlanItem> items = {prompt(200), prompt(200), prompt(200)};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256}), (Feeds{200, 56, 0}));
}

TEST(Plan, AShortPromptDoesNotWaitForALongOne) {
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 256};
  EXPECT_EQ(plan_step(std::vector{prompt(2'000'000), prompt(100), prompt(60)}, limits), (Feeds{128, 68, 60}));
  EXPECT_EQ(plan_step(std::vector{prompt(2'000'000), prompt(20)}, limits), (Feeds{236, 20}))
      << "what the short one leaves is the long one's";
  EXPECT_EQ(plan_step(std::vector{prompt(2'000'000), prompt(50, 10)}, limits), (Feeds{246, 10}));
}

TEST(Plan, ShortPromptsWithoutEndDoNotStarveALongOne) {
  std::vector<PlanItem> items{prompt(10'000)};
  int64_t fed = 0;
  for (int step = 0; step < 100; step++) {  // in each one two short prompts more than the chunk holds
    items.resize(1);
    items.resize(101, prompt(200));
    const Feeds feeds = plan_step(items, {.max_rows = 512, .prefill_chunk = 256});
    items[0].to_feed -= feeds[0];
    fed += feeds[0];
    if (items[0].to_feed == 0) break;
  }
  EXPECT_EQ(fed, 10'000) << "the oldest has half of every step";
}

TEST(Plan, PromptsBesideAFewStreamsTakeSomeRows) {
  const PlanLimits limits{.max_rows = 4096, .prefill_chunk = 2048, .max_wanted = 4096};
  EXPECT_EQ(plan_step(std::vector{prompt(4000)}, limits), (Feeds{2048}));
  EXPECT_EQ(plan_step(std::vector{decoding(), prompt(4000)}, limits), (Feeds{1, kLeastPromptRows}));
}

TEST(Plan, AStepWithPromptsStretchesByItsShareOfOneOfAllThatRun) {
  for (const double each : {1.0, 1.75}) {
    const PlanLimits limits{
        .max_rows = 4096, .prefill_chunk = 2048, .max_wanted = 4096, .prompt_rows_per_row = each};
    for (const size_t joining : {1, 100, 300}) {
      for (const size_t streams : {300, 800}) {
        std::vector<PlanItem> items(streams, decoding());
        items.resize(streams + joining, prompt(4000));
        const Feeds feeds = plan_step(items, limits);
        const int64_t prompts = std::accumulate(feeds.begin(), feeds.end(), -static_cast<int64_t>(streams));
        const auto decode = static_cast<double>(streams), all = static_cast<double>(streams + joining);
        const auto left = static_cast<int64_t>((kMostStretch * all - decode) * each);
        EXPECT_EQ(prompts, std::clamp(left, kLeastPromptRows, int64_t{2048})) << streams << ", " << joining;
      }
    }
  }
}

TEST(Plan, PromptsOfMixturesJoinWithARowInEachSlot) {
  std::vector<PlanItem> items(300, decoding());
  items.push_back({.to_feed = 1000, .slots = 50});
  const auto rows = static_cast<int64_t>(kMostStretch * 350) - 300;
  EXPECT_EQ(plan_step(items, {.max_rows = 4096, .prefill_chunk = 2048, .max_wanted = 4096}).back(),
            rows / 50);
}

TEST(Plan, RowsOfAStepAreBounded) {
  const std::vector<PlanItem> items = {decoding(), decoding(), decoding(), prompt(9)};
  EXPECT_EQ(plan_step(items, {.max_rows = 2, .prefill_chunk = 256}), (Feeds{1, 1, 0, 0}));
  EXPECT_EQ(plan_step(items, {.max_rows = 5, .prefill_chunk = 256}), (Feeds{1, 1, 1, 2}));
}

TEST(Plan, APromptStopsWhereASnapshotIsDue) {
  const std::vector<PlanItem> items = {prompt(100, 30), prompt(5)};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256}), (Feeds{30, 5}));
}

TEST(Plan, OutputsThatAreWantedAreBounded) {
  const PlanItem scored{.to_feed = 100, .every_row = true};
  const std::vector<PlanItem> items = {scored, decoding(), prompt(50), prompt(50)};
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256, .max_wanted = 10}),
            (Feeds{7, 1, 50, 50}));
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .prefill_chunk = 256, .max_wanted = 102}),
            (Feeds{99, 1, 50, 50}));
}

TEST(Plan, ATokenOfAMixtureTakesARowInEachSlot) {
  const PlanItem mixed{.to_feed = 1, .decoding = true, .slots = 3};
  const PlanItem mixed_prompt{.to_feed = 100, .slots = 3};
  EXPECT_EQ(plan_step(std::vector{mixed, decoding()}, {.max_rows = 3, .prefill_chunk = 8}), (Feeds{1, 0}));
  EXPECT_EQ(plan_step(std::vector{mixed, decoding()}, {.max_rows = 2, .prefill_chunk = 8}), (Feeds{0, 1}));
  EXPECT_EQ(plan_step(std::vector{mixed_prompt, prompt(9)}, {.max_rows = 64, .prefill_chunk = 32}),
            (Feeds{7, 9}));
  EXPECT_EQ(plan_step(std::vector{mixed_prompt}, {.max_rows = 64, .prefill_chunk = 2}), (Feeds{1}))
      << "a chunk smaller than the mixture does not stop it";
}

TEST(Plan, NothingToFeedMeansNothingToRun) {
  const std::vector<PlanItem> items = {prompt(0), {.to_feed = 0, .decoding = true}};
  const Feeds feeds = plan_step(items, {});
  EXPECT_EQ(std::accumulate(feeds.begin(), feeds.end(), int64_t{0}), 0);
}

TEST(Plan, DraftsComeBehindEverybodysOwnRows) {
  std::vector<PlanItem> items{decoding(), decoding(), decoding()};
  items[0].drafts = 7;
  items[2].drafts = 4;
  EXPECT_EQ(plan_step(items, {.max_rows = 512}), (Feeds{8, 1, 5}));
  EXPECT_EQ(plan_step(items, {.max_rows = 9}), (Feeds{7, 1, 1}));
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .max_wanted = 5}), (Feeds{3, 1, 1}));
}

TEST(Plan, TokensThatWereRolledBackAreFedAgainTogether) {
  std::vector<PlanItem> items{decoding(), decoding()};
  items[0].to_feed = 4;
  items[0].drafts = 3;
  EXPECT_EQ(plan_step(items, {.max_rows = 512}), (Feeds{7, 1}));
  EXPECT_EQ(plan_step(items, {.max_rows = 512, .max_wanted = 2}), (Feeds{4, 1})) << "only the last is wanted";
  EXPECT_EQ(plan_step(items, {.max_rows = 3}), (Feeds{2, 1})) << "drafts wait for what comes before them";
}

TEST(ShareLimits, OneStepAtATimeTakesAll) {
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 256, .max_wanted = 64};
  const PlanLimits share = share_limits(limits, {.decoding = 40, .prompt_rows = 9000}, 1, as_they_are);
  EXPECT_EQ(share.prefill_chunk, 256);
  EXPECT_EQ(share.max_decoding, limits.max_decoding);
}

TEST(ShareLimits, RowsThatDecodeAreDividedEqually) {
  const PlanLimits limits{.max_rows = 512};
  EXPECT_EQ(share_limits(limits, {.decoding = 40}, 2, as_they_are).max_decoding, 20);
  EXPECT_EQ(share_limits(limits, {.decoding = 41}, 4, as_they_are).max_decoding, 11);
  EXPECT_EQ(share_limits(limits, {.decoding = 0}, 4, as_they_are).max_decoding, 1);
}

TEST(ShareLimits, AShareIsAsLargeAsWhatItIsPaddedTo) {
  const auto by_64 = [](int64_t rows) { return (rows + 63) / 64 * 64; };
  const PlanLimits limits{.max_rows = 1024, .max_wanted = 1024};
  const PlanLimits share = share_limits(limits, {.decoding = 960}, 2, by_64);
  EXPECT_EQ(share.max_decoding, 512) << "and 448 are left, where 480 twice would be computed as 512 twice";
  EXPECT_EQ(share_limits(limits, {.decoding = 640}, 2, by_64).max_decoding, 320);
}

TEST(ShareLimits, PromptsTakeAStepsShareOfAllThatRun) {
  std::vector<PlanItem> items(800, decoding());
  items.resize(1000, prompt(4000));
  const PlanLimits limits{.max_rows = 4096, .prefill_chunk = 2048, .max_wanted = 4096};
  const Feeds feeds =
      plan_step(items, share_limits(limits, {.decoding = 800, .prompt_rows = 800'000}, 2, as_they_are));
  EXPECT_EQ(std::accumulate(feeds.begin(), feeds.begin() + 800, int64_t{0}), 400);
  EXPECT_EQ(std::accumulate(feeds.begin() + 800, feeds.end(), int64_t{0}),
            static_cast<int64_t>(kMostStretch * 500) - 400);
}

// Turns of a pipeline until so many tokens of prompts have gone through it, each as long as its largest
// piece.
double turns(int64_t tokens, int64_t piece, int64_t stages) {
  const int64_t pieces = (tokens + piece - 1) / piece;
  return static_cast<double>((pieces + stages - 1) * (std::min(piece, tokens) + kPieceRows));
}

TEST(ShareLimits, PromptsComeInPiecesThatAreTheQuickest) {
  const PlanLimits limits{.max_rows = 8192, .prefill_chunk = 8192};
  for (const int64_t stages : {2, 3, 4}) {
    for (const int64_t tokens : {2048, 4096, 16'384, 65'536, 262'144}) {
      const int64_t piece = share_limits(limits, {.prompt_rows = tokens}, stages, as_they_are).prefill_chunk;
      double quickest = turns(tokens, kLeastPiece, stages);
      for (int64_t other = kLeastPiece; other <= limits.prefill_chunk; other += 16)
        quickest = std::min(quickest, turns(tokens, other, stages));
      EXPECT_LE(turns(tokens, piece, stages), 1.12 * quickest)
          << tokens << " over " << stages << ": " << piece;
    }
  }
}

TEST(ShareLimits, PiecesOfPromptsHaveBounds) {
  const PlanLimits limits{.max_rows = 8192, .prefill_chunk = 4096};
  const auto piece_of = [&](const PlanTotal& total) {
    return share_limits(limits, total, 2, as_they_are).prefill_chunk;
  };
  EXPECT_EQ(piece_of({.prompt_rows = 1'000'000}), 4096);
  EXPECT_EQ(piece_of({.prompt_rows = 700}), kLeastPiece);
}

TEST(Plan, NoMoreRowsDecodeThanTheLimitSays) {
  std::vector<PlanItem> items(5, {.to_feed = 1, .decoding = true});
  EXPECT_EQ(plan_step(items, {.max_decoding = 2}), (std::vector<int64_t>{1, 1, 0, 0, 0}));
  items[0].to_feed = 0;  // under way
  EXPECT_EQ(plan_step(items, {.max_decoding = 2}), (std::vector<int64_t>{0, 1, 1, 0, 0}));
  items[1].slots = 3;  // a mixture larger than the share is not left out for ever
  EXPECT_EQ(plan_step(items, {.max_decoding = 2}), (std::vector<int64_t>{0, 1, 0, 0, 0}));
}

PlanItem whole(int64_t tokens, int64_t piece) { return {.to_feed = tokens, .piece = piece}; }

TEST(PlanPieces, AreFedAtOnceOrNotAtAll) {
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 256};
  EXPECT_EQ(plan_step(std::vector{whole(4000, 256)}, limits), (Feeds{256}));
  EXPECT_EQ(plan_step(std::vector{whole(100, 256)}, limits), (Feeds{100}));
  EXPECT_EQ(plan_step(std::vector{whole(4000, 200), whole(4000, 200)}, limits), (Feeds{200, 0}));
  EXPECT_EQ(plan_step(std::vector{whole(4000, 200), whole(57, 200), whole(56, 200)}, limits),
            (Feeds{200, 0, 56}));
  EXPECT_EQ(plan_step(std::vector{decoding(), whole(4000, 256), decoding()}, limits), (Feeds{1, 256, 1}));
}

TEST(PlanPieces, TheOldestHasItsRoomBesideAnyNumberOfOthers) {
  std::vector<PlanItem> items(600, decoding());
  for (PlanItem& item : items) item.drafts = 7;
  items.push_back(whole(4000, 256));
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 256, .max_wanted = 512};
  const Feeds feeds = plan_step(items, limits);
  EXPECT_EQ(feeds.back(), 256);
  EXPECT_EQ(std::accumulate(feeds.begin(), feeds.end(), int64_t{0}), 512);
  items.back() = whole(4000, 200);
  items.back().every_row = true;
  EXPECT_EQ(plan_step(items, limits).back(), 200);
}

// Wherever other traffic lets the steps end, the pieces are the same.
TEST(PlanPieces, EndWhereTheyDoWhateverElseRuns) {
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 256, .max_wanted = 300};
  const auto pieces = [&](int64_t others) {
    PlanItem mine = whole(1000, 0);
    Feeds ends;
    for (int64_t fed = 0, step = 0; fed < 1000; step++) {
      mine.to_feed = 1000 - fed;
      mine.piece = next_piece(limits, mine, 128, fed);
      std::vector<PlanItem> items(static_cast<size_t>(others * (step % 3)), decoding());
      if (step % 2 == 1) items.push_back(whole(90, 128));
      items.push_back(mine);
      const int64_t now = plan_step(items, limits).back();
      fed += now;
      if (now > 0) ends.push_back(fed);
    }
    return ends;
  };
  EXPECT_EQ(pieces(0), (Feeds{128, 256, 384, 512, 640, 768, 896, 1000}));
  for (const int64_t others : {1, 100, 250}) EXPECT_EQ(pieces(others), pieces(0)) << others;
}

TEST(PlanPieces, TakeHalfAStepAtMost) {
  const PlanLimits limits{.max_rows = 512, .prefill_chunk = 512, .max_wanted = 64};
  EXPECT_EQ(next_piece(limits, whole(4000, 0), 1024, 0), 256);
  EXPECT_EQ(next_piece(limits, whole(4000, 0), 100, 250), 50);
  PlanItem scored = whole(4000, 0);
  scored.every_row = true;
  EXPECT_EQ(next_piece(limits, scored, 1024, 0), 32);
  scored.slots = 100;
  EXPECT_EQ(next_piece(limits, scored, 1024, 0), 1);
}

}  // namespace
}  // namespace fulmar
