// What waits for a slot: who is asked in which order, and that nobody is asked more often than needed.
#include "engine/waiting_rows.h"

#include <gtest/gtest.h>

#include <functional>

namespace fulmar {
namespace {

using Offer = WaitingRows::Offer;

std::shared_ptr<RequestRecord> add(WaitingRows& waiting, int32_t rows, int32_t first = 0) {
  auto record = std::make_shared<RequestRecord>();
  std::vector<SequencePtr> sequences;
  for (int32_t i = 0; i < rows; i++) {
    auto sequence = std::make_unique<Sequence>();
    sequence->ask.index = first + i;
    sequence->ask.prompt.assign(10, 0);
    sequence->ask.max_tokens = 3;
    sequence->request = record;
    sequences.push_back(std::move(sequence));
  }
  waiting.add(std::move(sequences));
  return record;
}

// The indices that one offering looks at; those that `takes` names are taken.
std::vector<int32_t> offered(WaitingRows& waiting, const std::function<bool(int32_t)>& takes) {
  std::vector<int32_t> seen;
  waiting.offer([&](SequencePtr& row) {
    seen.push_back(row->ask.index);
    if (!takes(row->ask.index)) return Offer::passed;
    row.reset();
    return Offer::taken;
  });
  return seen;
}

TEST(WaitingRows, AreOfferedInOrderOfArrivalAndOnceTakenAreGone) {
  WaitingRows waiting;
  add(waiting, 3, 0);
  add(waiting, 2, 10);
  EXPECT_EQ(offered(waiting, [](int32_t i) { return i == 1 || i >= 10; }), (std::vector{0, 1, 2, 10, 11}));
  EXPECT_EQ(waiting.rows(), 2);
  EXPECT_EQ(offered(waiting, [](int32_t) { return true; }), (std::vector{0, 2}));
  EXPECT_TRUE(waiting.empty());
  EXPECT_TRUE(offered(waiting, [](int32_t) { return true; }).empty());
}

TEST(WaitingRows, AreNotLookedAtWhenNobodyCanStart) {
  WaitingRows waiting;
  for (int32_t i = 0; i < 100; i++) add(waiting, 40);
  int looks = 0;
  waiting.offer([&](SequencePtr&) {
    looks++;
    return Offer::closed;
  });
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(waiting.rows(), 100 * 40);
}

TEST(WaitingRows, AnOfferingLooksAtABoundedNumberAndTheNextOneGoesOn) {
  const auto most = static_cast<int32_t>(WaitingRows::kMostLooks);
  WaitingRows waiting;
  add(waiting, most - 10, 0);
  add(waiting, most, most - 10);
  const auto none = [](int32_t) { return false; };
  EXPECT_EQ(offered(waiting, none).size(), WaitingRows::kMostLooks);
  const std::vector<int32_t> second = offered(waiting, none);
  EXPECT_EQ(second.front(), most) << "behind those that were passed";
  EXPECT_EQ(second.back(), 2 * most - 11);
  EXPECT_EQ(offered(waiting, none).front(), 0) << "then from the front again";
  // Rows that are taken in the middle do not make others be left out.
  EXPECT_EQ(offered(waiting, [&](int32_t i) { return i % 2 == 0; }).front(), most);
  EXPECT_EQ(offered(waiting, none).front(), 0);
}

TEST(WaitingRows, ARequestIsTakenAsAWhole) {
  WaitingRows waiting;
  add(waiting, 2, 0);
  const auto gone = add(waiting, 3, 10);
  add(waiting, 2, 20);
  EXPECT_EQ(waiting.take(*gone).size(), 3u);
  EXPECT_TRUE(waiting.take(*gone).empty());
  EXPECT_EQ(offered(waiting, [](int32_t) { return false; }), (std::vector{0, 1, 20, 21}));
}

TEST(WaitingRows, SumsAreKeptAsRowsComeAndGo) {
  WaitingRows waiting;
  const auto record = add(waiting, 5);
  offered(waiting, [](int32_t i) { return i < 2; });
  int requests = 0;
  waiting.each_request([&](const RequestRecord& request, const RequestStatus& sums) {
    requests++;
    EXPECT_EQ(&request, record.get());
    EXPECT_EQ(sums.prompt_tokens, 3 * 10);
    EXPECT_EQ(sums.max_tokens, 3 * 3);
  });
  EXPECT_EQ(requests, 1);
}

}  // namespace
}  // namespace fulmar
