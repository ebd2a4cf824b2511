// What one rank has the others do in the middle of a step.
#include "ranks/errands.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <vector>

#include "ops/device.h"

namespace fulmar {
namespace {

TEST(Errands, EveryFollowerRunsAllInOrderUntilTheStepIsOver) {
  Errands errands(2);
  std::mutex mutex;
  std::vector<int> ran[3];
  const auto ask = [&](int number) {
    errands.ask([&, number](size_t follower) {
      const std::lock_guard lock(mutex);
      ran[follower].push_back(number);
    });
  };
  std::vector<std::future<void>> followers;
  for (const size_t follower : {1u, 2u}) {
    followers.push_back(std::async(std::launch::async, [&, follower] {
      for (int step = 0; step < 3; step++) errands.follow(follower);
    }));
  }
  ask(1), ask(2);
  errands.step_over();
  errands.step_over();  // a step without any
  ask(3);
  errands.step_over();
  for (auto& one : followers) one.get();
  for (const size_t follower : {1u, 2u}) EXPECT_EQ(ran[follower], (std::vector<int>{1, 2, 3}));
}

TEST(Errands, AFollowerDoesNotGoOnToErrandsOfTheNextStep) {
  Errands errands(1);
  std::vector<int> ran;
  errands.ask([&](size_t) { ran.push_back(1); });
  errands.step_over();
  errands.ask([&](size_t) { ran.push_back(2); });
  errands.step_over();
  errands.follow(1);
  EXPECT_EQ(ran, std::vector<int>{1});
  errands.follow(1);
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(Errands, NobodyWaitsOnceTheyAreClosed) {
  Errands errands(1);
  auto waiting = std::async(std::launch::async, [&]() -> std::string {
    try {
      errands.follow(1);
    } catch (const DeviceFailure& failure) {
      return failure.what();
    }
    return "";
  });
  errands.close("the bus has gone");
  EXPECT_EQ(waiting.get(), "the bus has gone");
}

}  // namespace
}  // namespace fulmar
