// What waits for a slot: who is asked in which order, and that nobody is asked more often than needed.
#include "engine/waiting_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace fulmar {
namespace {

using Offer = WaitingRows::Offer;

std::shared_ptr<RequestRecord> add(WaitingRows& waiting, int32_t rows, int32_t first = 0,
                                   std::string owner = {}, size_t prompt = 10) {
  auto record = std::make_shared<RequestRecord>();
  record->owner = std::move(owner);
  std::vector<SequencePtr> sequences;
  for (int32_t i = 0; i < rows; i++) {
    auto sequence = std::make_unique<Sequence>();
    sequence->ask.index = first + i;
    sequence->ask.prompt.assign(prompt, 0);
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

// The indices in the order in which they are taken, one in each offering.
std::vector<int32_t> taken_one_by_one(WaitingRows& waiting) {
  std::vector<int32_t> taken;
  while (!waiting.empty()) {
    bool free_slot = true;
    waiting.offer([&](SequencePtr& row) {
      if (!std::exchange(free_slot, false)) return Offer::closed;
      taken.push_back(row->ask.index);
      row.reset();
      return Offer::taken;
    });
  }
  return taken;
}

TEST(WaitingRows, AreOfferedInOrderOfArrivalAndOnceTakenAreGone) {
  WaitingRows waiting;
  for (int32_t i = 0; i < 5; i++) add(waiting, 1, i);
  EXPECT_EQ(offered(waiting, [](int32_t i) { return i == 1 || i >= 3; }).size(), 5u + 2u)
      << "those that are passed once as the oldest, and as the one with the least tokens";
  EXPECT_EQ(waiting.rows(), 2);
  EXPECT_EQ(taken_one_by_one(waiting), (std::vector{0, 2}));
  EXPECT_TRUE(waiting.empty());
  EXPECT_TRUE(offered(waiting, [](int32_t) { return true; }).empty());
}

TEST(WaitingRows, RequestsOfOneSizeStartOneAfterAnother) {
  WaitingRows waiting;
  for (int32_t i = 0; i < 4; i++) add(waiting, 3, 3 * i);
  EXPECT_EQ(taken_one_by_one(waiting), (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(WaitingRows, ASmallRequestWaitsForOneRowOfALargeOne) {
  WaitingRows waiting;
  add(waiting, 1000, 0);
  for (int32_t i = 0; i < 3; i++) add(waiting, 1, 1000 + i);
  std::vector<int32_t> taken = taken_one_by_one(waiting);
  ASSERT_EQ(taken.size(), 1003u) << "nor does the large one wait for many small ones";
  taken.resize(6);
  EXPECT_EQ(taken, (std::vector{0, 1000, 1, 1001, 2, 1002}));
}

TEST(WaitingRows, OwnersTakeTurnsHoweverManyRequestsEachHas) {
  WaitingRows waiting;
  for (int32_t i = 0; i < 50; i++) add(waiting, 20, 20 * i, "alice", 5);
  add(waiting, 2, 5000, "bob", 1000);
  add(waiting, 1, 6000, "carol", 1'000'000);
  std::vector<int32_t> taken = taken_one_by_one(waiting);
  ASSERT_EQ(taken.size(), 1003u);
  taken.resize(5);
  EXPECT_EQ(taken, (std::vector{0, 5000, 6000, 1, 5001}));
}

TEST(WaitingRows, AnOwnerWhoseRowsCannotStartHoldsUpNobody) {
  WaitingRows waiting;
  add(waiting, 3 * static_cast<int32_t>(WaitingRows::kMostLooks), 0, "alice");
  add(waiting, 1, 5000, "bob");
  int offerings = 0;
  while (waiting.rows() > 3 * static_cast<int64_t>(WaitingRows::kMostLooks) && offerings < 10) {
    offered(waiting, [](int32_t i) { return i == 5000; });
    offerings++;
  }
  EXPECT_EQ(offerings, 2);
}

TEST(WaitingRows, ANewRowIsLookedAtInTheNextOffering) {
  WaitingRows waiting;
  add(waiting, static_cast<int32_t>(WaitingRows::kMostLooks), 0);
  offered(waiting, [](int32_t) { return false; });
  add(waiting, 1, 5000);
  const std::vector<int32_t> seen = offered(waiting, [](int32_t) { return false; });
  for (const int32_t row : {0, 5000}) EXPECT_EQ(std::count(seen.begin(), seen.end(), row), 1) << row;
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
  add(waiting, 2 * most - 10, 0);
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
  EXPECT_EQ(taken_one_by_one(waiting), (std::vector{0, 1, 20, 21}));
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
