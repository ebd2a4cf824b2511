// Sums and gathers of ranks through host memory.
#include "ranks/host_collective.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <latch>
#include <random>
#include <thread>

#include "cpu/cpu_ops.h"
#include "ops/device.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kRows = 3, kCols = 8;

Tensor matrix(std::vector<float>& numbers, int64_t rows = kRows) {
  const int64_t cols = static_cast<int64_t>(numbers.size()) / rows;
  return {numbers.data(), DType::f32, rows, cols, cols};
}

class HostCollectiveTest : public testing::Test {
 protected:
  void open(size_t ranks, milliseconds timeout = milliseconds(60'000)) {
    for (size_t i = 0; i < ranks; i++) devices_.push_back(make_cpu_ops({.threads = 1}));
    std::vector<Ops*> group;
    for (const auto& device : devices_) group.push_back(device.get());
    ends_ = make_host_collectives(group, {kRows, kCols, timeout});
  }
  // Runs body(rank) of every rank on a thread of its own.
  template <class Body>
  void on_all(const Body& body) {
    std::vector<std::future<void>> runs;
    for (size_t i = 0; i < ends_.size(); i++)
      runs.push_back(std::async(std::launch::async, [&, i] { body(i); }));
    for (auto& run : runs) run.get();
  }

  std::vector<std::unique_ptr<Ops>> devices_;
  std::vector<std::unique_ptr<Collective>> ends_;
};

TEST_F(HostCollectiveTest, EveryEndKnowsItsPlace) {
  open(3);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(ends_[i]->rank(), static_cast<int64_t>(i));
    EXPECT_EQ(ends_[i]->size(), 3);
    EXPECT_FALSE(ends_[i]->recordable());
  }
}

// Many sums of changing sizes behind one another: what one rank writes next never shows in another's sum.
TEST_F(HostCollectiveTest, SumsHaveTheSameBitsOnEveryRank) {
  constexpr size_t kRanks = 3, kTimes = 2000;
  open(kRanks);
  std::vector<std::vector<float>> x(kRanks, std::vector<float>(kRows * kCols, 1.0f));
  on_all([&](size_t rank) {
    for (size_t time = 0; time < kTimes; time++) {
      const auto rows = static_cast<int64_t>(1 + time % kRows);
      std::mt19937 random(static_cast<uint32_t>(time * kRanks + rank));
      std::vector<float> partial(static_cast<size_t>(rows * kCols));
      for (float& number : partial) number = static_cast<float>(random() % 1000) / 7.0f;
      Tensor target = matrix(x[rank]);
      ends_[rank]->add_sum(matrix(partial, rows), target.slice_rows(0, rows));
      std::fill(partial.begin(), partial.end(), -1.0f);
    }
  });
  std::vector<float> want(kRows * kCols, 1.0f);
  for (size_t time = 0; time < kTimes; time++) {
    std::vector<float> sum((1 + time % kRows) * kCols, 0.0f);
    for (size_t rank = 0; rank < kRanks; rank++) {
      std::mt19937 random(static_cast<uint32_t>(time * kRanks + rank));
      for (float& number : sum) number += static_cast<float>(random() % 1000) / 7.0f;
    }
    for (size_t i = 0; i < sum.size(); i++) want[i] += sum[i];
  }
  for (size_t rank = 0; rank < kRanks; rank++) EXPECT_EQ(x[rank], want) << "rank " << rank;
}

TEST_F(HostCollectiveTest, PartsOfALoneRowAreAddedUpFirst) {
  open(2);
  std::vector<std::vector<float>> x(2, std::vector<float>(kCols, 1.0f));
  on_all([&](size_t rank) {
    std::vector<float> parts(kRows * kCols, rank == 0 ? 2.0f : 5.0f);
    ends_[rank]->add_sum(matrix(parts), matrix(x[rank], 1));
  });
  for (const auto& sum : x) EXPECT_EQ(sum, std::vector<float>(kCols, 1.0f + kRows * 7.0f));
}

// Of random sizes, with ranks that are late at random; FULMAR_SUMS says how many.
TEST_F(HostCollectiveTest, ManySumsWithDelaysAreExact) {
  const char* told = std::getenv("FULMAR_SUMS");
  const int times = told != nullptr ? std::atoi(told) : 5000;
  constexpr size_t kRanks = 3;
  open(kRanks);
  std::vector<std::vector<float>> x(kRanks, std::vector<float>(kRows * kCols));
  on_all([&](size_t rank) {
    std::mt19937 sizes(3), delays(static_cast<uint32_t>(rank));
    std::vector<float> own(kRows * kCols, static_cast<float>(rank + 1));
    for (int time = 0; time < times; time++) {
      if (delays() % 1000 == 0) std::this_thread::sleep_for(milliseconds(delays() % 3));
      const auto rows = static_cast<int64_t>(1 + sizes() % kRows);
      ends_[rank]->add_sum(matrix(own).slice_rows(0, rows), matrix(x[rank]).slice_rows(0, rows));
    }
  });
  std::vector<double> want(kRows * kCols);
  std::mt19937 sizes(3);
  for (int time = 0; time < times; time++) {
    const size_t count = (1 + sizes() % kRows) * kCols;
    for (size_t i = 0; i < count; i++) want[i] += 6;
  }
  for (const auto& sums : x) EXPECT_TRUE(std::equal(sums.begin(), sums.end(), want.begin(), want.end()));
}

TEST_F(HostCollectiveTest, HalvesAreAddedUpAsFloats) {
  open(2);
  std::vector<std::vector<float>> x(2, std::vector<float>(kCols, 0.0f));
  on_all([&](size_t rank) {
    const std::vector<float> numbers(kCols, rank == 0 ? 2048.0f : 1.0f);  // their sum is no half
    std::vector<uint16_t> halves(kCols);
    from_f32(numbers, DType::f16, halves.data());
    ends_[rank]->add_sum({halves.data(), DType::f16, 1, kCols, kCols}, matrix(x[rank], 1));
  });
  for (const auto& sum : x) EXPECT_EQ(sum, std::vector<float>(kCols, 2049.0f));
}

TEST_F(HostCollectiveTest, PartsOfUnequalWidthAreGatheredInTheirPlaces) {
  open(2);
  std::vector<float> whole(2 * 5, -1.0f);
  on_all([&](size_t rank) {
    std::vector<float> part =
        rank == 0 ? std::vector<float>{1, 2, 6, 7} : std::vector<float>{3, 4, 5, 8, 9, 10};
    ends_[rank]->gather(matrix(part, 2), rank == 0 ? 0 : 2, rank == 0 ? matrix(whole, 2) : Tensor{});
  });
  EXPECT_EQ(whole, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_F(HostCollectiveTest, ALateRankIsWaitedFor) {
  open(2);
  std::vector<float> one(kCols, 1.0f), two(kCols, 2.0f), x(kCols, 0.0f), y(kCols, 0.0f);
  auto early = std::async(std::launch::async, [&] { ends_[0]->add_sum(matrix(one, 1), matrix(x, 1)); });
  EXPECT_EQ(early.wait_for(milliseconds(50)), std::future_status::timeout);
  ends_[1]->add_sum(matrix(two, 1), matrix(y, 1));
  early.get();
  EXPECT_EQ(x, std::vector<float>(kCols, 3.0f));
  EXPECT_EQ(y, x);
}

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceFailure& failure) {
    return failure.what();
  }
  return "";
}

TEST_F(HostCollectiveTest, ARankThatDoesNotComeIsNamed) {
  open(3, milliseconds(500));
  std::vector<float> one(kCols, 1.0f), x(kCols, 0.0f);
  std::string told[2];
  std::latch both(2);  // neither waits for the other for long
  auto other = std::async(std::launch::async, [&] {
    std::vector<float> two(kCols, 1.0f), y(kCols, 0.0f);
    both.arrive_and_wait();
    told[1] = failure_of([&] { ends_[2]->add_sum(matrix(two, 1), matrix(y, 1)); });
  });
  both.arrive_and_wait();
  told[0] = failure_of([&] { ends_[0]->add_sum(matrix(one, 1), matrix(x, 1)); });
  other.get();
  for (const std::string& text : told) {
    EXPECT_NE(text.find("has waited 500 ms for rank 1 (cpu"), std::string::npos) << text;
    EXPECT_EQ(text.find("for rank 0"), std::string::npos) << text;
  }
  EXPECT_EQ(x, std::vector<float>(kCols, 0.0f)) << "nothing is added where somebody is missing";
}

TEST_F(HostCollectiveTest, AClosedGroupLetsNobodyWait) {
  open(2);
  std::vector<float> one(kCols, 1.0f), x(kCols, 0.0f);
  auto waiting = std::async(std::launch::async, [&] {
    return failure_of([&] { ends_[0]->add_sum(matrix(one, 1), matrix(x, 1)); });
  });
  ends_[1]->close("the bus has gone");
  EXPECT_EQ(waiting.get(), "the bus has gone");
  EXPECT_EQ(failure_of([&] { ends_[1]->gather(matrix(one, 1), 0, {}); }), "the bus has gone");
}

}  // namespace
}  // namespace fulmar
