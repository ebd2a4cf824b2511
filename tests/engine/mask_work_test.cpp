// Sharing what masks cost: by counts of work, never by time.
#include "engine/mask_work.h"

#include <gtest/gtest.h>

#include <map>

#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::RowLog;
using testing::TinyEngine;

// Every token is allowed; each mask takes so much work, which goes on `bill`.
class CostlyMask final : public TokenMask {
 public:
  CostlyMask(size_t cost, std::shared_ptr<size_t> bill) : cost_(cost), bill_(std::move(bill)) {}
  std::span<const uint64_t> allowed() override {
    prepare();
    return {};
  }
  bool ready() const override { return ready_; }
  size_t prepare() override {
    if (std::exchange(ready_, true)) return 0;
    *bill_ += cost_;
    return cost_;
  }
  void accept(int32_t) override { ready_ = false; }
  bool complete() const override { return false; }
  std::unique_ptr<TokenMask> fork() const override { return std::make_unique<CostlyMask>(*this); }

 private:
  const size_t cost_;
  const std::shared_ptr<size_t> bill_;
  bool ready_ = false;
};

class Sharing : public ::testing::Test {
 protected:
  void add(int count, size_t cost) {
    for (int i = 0; i < count; i++) {
      masks_.push_back(std::make_unique<CostlyMask>(cost, bill_));
      items_.push_back({masks_.back().get(), 0});
    }
  }
  // One step: who draws, having been told so; those that have not wait.
  std::vector<size_t> step() {
    const std::vector<bool> draws = share_mask_work(items_, limits_);
    std::vector<size_t> drawn;
    for (size_t i = 0; i < items_.size(); i++) {
      items_[i].waited = draws[i] ? 0 : items_[i].waited + 1;
      if (draws[i]) drawn.push_back(i);
    }
    return drawn;
  }

  const MaskLimits limits_{.made_meanwhile = 2, .work = 1000};
  const std::shared_ptr<size_t> bill_ = std::make_shared<size_t>(0);
  std::vector<std::unique_ptr<CostlyMask>> masks_;
  std::vector<MaskItem> items_;
};

TEST_F(Sharing, AFewAreLeftToBeMadeWhileTheDeviceComputes) {
  add(2, 5000);
  EXPECT_EQ(step().size(), 2U);
  EXPECT_EQ(*bill_, 0U);
}

TEST_F(Sharing, CheapOnesAllDraw) {
  add(40, 20);
  EXPECT_EQ(step().size(), 40U);
  EXPECT_EQ(*bill_, 800U);
}

TEST_F(Sharing, AStepTakesTheWorkOfOneBeyondTheLimitAtMost) {
  add(10, 600);
  for (int i = 0; i < 20; i++) {
    const size_t before = *bill_;
    EXPECT_EQ(step().size(), 2U);
    EXPECT_LE(*bill_ - before, limits_.work + 600);
    for (auto& mask : masks_) {
      if (mask->ready()) mask->accept(0);
    }
  }
}

TEST_F(Sharing, OneIsMadeWhateverItTakes) {
  add(3, 1'000'000);
  EXPECT_EQ(step().size(), 1U);
}

TEST_F(Sharing, ThoseThatWaitedLongestGoFirst) {
  add(9, 1000);
  std::map<size_t, int> times;
  for (int round = 0; round < 18; round++) {
    for (const size_t i : step()) {
      times[i]++;
      masks_[i]->accept(0);
    }
  }
  for (size_t i = 0; i < items_.size(); i++) EXPECT_EQ(times[i], 2) << i;
}

TEST_F(Sharing, ReadyOnesNeverWait) {
  add(5, 1'000'000);
  masks_[4]->prepare();
  for (int i = 0; i < 3; i++) EXPECT_EQ(step().back(), 4U);
}

// Rows of costly masks in an engine: they take turns, are all answered, and say what they would say alone.
TEST(MaskWork, HeldUpRowsSayWhatTheyWouldSayAlone) {
  TinyEngine tiny({.slots = 8, .prefill_chunk = 16});
  const auto bill = std::make_shared<size_t>(0);
  std::vector<Ask> rows;
  for (int i = 0; i < 6; i++) {
    Ask ask = TinyEngine::greedy("row " + std::to_string(i), 5);
    ask.mask = std::make_shared<CostlyMask>(MaskLimits().work, bill);
    rows.push_back(std::move(ask));
  }
  const auto logs = tiny.submit(std::move(rows))->finished(6);
  for (int i = 0; i < 6; i++) {
    const RowLog alone = tiny.run(TinyEngine::greedy("row " + std::to_string(i), 5));
    EXPECT_EQ(logs.at(i).text, alone.text) << i;
    EXPECT_EQ(logs.at(i).sampled, alone.sampled) << i;
  }
  EXPECT_EQ(*bill, 6 * 5 * MaskLimits().work);
}

}  // namespace
}  // namespace fulmar
