// The pool covers every index once, for all counts, grains and sizes, loop after loop.
#include "cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace fulmar {
namespace {

TEST(ThreadPool, SizeCountsTheCaller) {
  EXPECT_EQ(ThreadPool(1).size(), 1);
  EXPECT_EQ(ThreadPool(3).size(), 3);
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> visits(static_cast<size_t>(count), 0);
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }))
            << threads << " threads, count " << count << ", grain " << grain;
      }
    }
  }
}

TEST(ThreadPool, RangesAreMultiplesOfTheGrain) {
  ThreadPool pool(3);
  constexpr int64_t kCount = 103;
  std::atomic<int> broken = 0;
  pool.parallel_for(kCount, 8, [&](int64_t begin, int64_t end) {
    if (begin % 8 != 0 || end <= begin || (end != kCount && end % 8 != 0)) ++broken;
  });
  EXPECT_EQ(broken, 0);
}

TEST(ThreadPool, LoopsSeeWhatEarlierLoopsWrote) {
  ThreadPool pool(4);
  std::vector<int64_t> values(257, 0);
  constexpr int kLoops = 3000;
  for (int loop = 0; loop < kLoops; ++loop) {
    // Mirrored on every other loop, so that values pass from thread to thread.
    pool.parallel_for(257, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++values[static_cast<size_t>(loop % 2 == 0 ? i : 256 - i)];
    });
  }
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](int64_t n) { return n == kLoops; }));
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Ends only if a second thread takes part.
    std::atomic<int> inside = 0;
    pool.parallel_for(2, 1, [&](int64_t, int64_t) {
      ++inside;
      while (inside.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(inside, 2);
  }
}

TEST(ThreadPool, StopsWithoutEverRunning) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(3);
}

}  // namespace
}  // namespace fulmar
