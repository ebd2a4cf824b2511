// What happens to exceptions on threads of ours.
#include "base/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "base/caught.h"
#include "base/job_thread.h"

namespace fulmar {
namespace {

TEST(Thread, APassThatThrowsIsLoggedAndTheLoopGoesOn) {
  std::atomic<int> passes = 0;
  Thread thread("test", [&] {
    passes++;
    if (passes == 1) throw std::runtime_error("out of luck");
    if (passes == 2) throw 7;
  });
  thread.join();
  EXPECT_EQ(passes, 3);
}

TEST(RunOnThreads, EveryIndexRunsOnceAndTheCallersIsFirst) {
  std::vector<std::atomic<int>> ran(5);
  run_on_threads(5, [&](unsigned index) { ran[index]++; });
  for (const auto& times : ran) EXPECT_EQ(times, 1);
}

TEST(RunOnThreads, AnExceptionOfAnyOfThemIsTheCallers) {
  for (unsigned thrower = 0; thrower < 3; thrower++) {
    std::atomic<int> ended = 0;
    const auto work = [&](unsigned index) {
      if (index == thrower) throw std::runtime_error("out of luck");
      ended++;
    };
    EXPECT_THROW(run_on_threads(3, work), std::runtime_error);
    EXPECT_EQ(ended, 2) << "all have ended before it is thrown";
  }
}

TEST(Caught, WhatIsThrownIsAnError) {
  const auto outcome =
      caught("pull of 'a/b'", []() -> Result<int> { throw std::runtime_error("is a folder"); });
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().text, "pull of 'a/b': is a folder");
  EXPECT_FALSE(caught("x", []() -> Status { throw 7; }).ok());
  EXPECT_EQ(*caught("x", []() -> Result<int> { return 3; }), 3);
}

TEST(JobThread, AJobThatThrowsLeavesTheOthers) {
  std::atomic<int> done = 0;
  JobThread jobs("test", 0);
  jobs.post([] { throw std::runtime_error("out of luck"); });
  jobs.post([] { throw 7; });
  jobs.post([&] { done++; });
  jobs.finish();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace fulmar
