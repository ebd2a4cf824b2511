// Meters, the order in which jobs of several clients run, and the threads that run them.
#include "base/work_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

namespace fulmar {
namespace {

ClientJob job_of(
    std::string share, JobWeight weight = JobWeight::heavy, std::function<void()> run = [] {}) {
  return {std::move(share), weight, std::make_shared<Meter>(), std::move(run)};
}

TEST(Meter, EndsWorkBeyondItsLimitAndSaysWhich) {
  Meter meter(10);
  meter.count(10);
  try {
    meter.count(1);
    FAIL() << "counted beyond the limit";
  } catch (const WorkEnded& ended) {
    EXPECT_EQ(ended.limit, 10u);
  }
}

TEST(Meter, CountsWithoutWrappingRound) {
  Meter meter(100);
  EXPECT_THROW(meter.count(Meter::kNoLimit), WorkEnded);
  EXPECT_THROW(meter.count(Meter::kNoLimit), WorkEnded);
  EXPECT_EQ(meter.used(), Meter::kNoLimit);
}

TEST(Meter, EndsStoppedWorkWithoutALimit) {
  Meter meter;
  meter.stop();
  try {
    meter.count(1);
    FAIL() << "counted after the stop";
  } catch (const WorkEnded& ended) {
    EXPECT_EQ(ended.limit, 0u);
  }
}

TEST(Meter, IsPaidByTheThreadThatWorksForIt) {
  Meter outer, inner;
  count_work(1);  // nobody's
  {
    const Meter::Scope scope(outer);
    count_work(2);
    {
      const Meter::Scope nested(inner);
      count_work(3);
      std::thread([] { count_work(100); }).join();
    }
    count_work(4);
  }
  EXPECT_EQ(current_meter(), nullptr);
  EXPECT_EQ(outer.used(), 6u);
  EXPECT_EQ(inner.used(), 3u);
}

TEST(FairQueue, GivesEachShareItsTurn) {
  FairQueue queue(100, 100, 1);
  for (const char* share : {"a", "a", "a", "b", "c"}) ASSERT_TRUE(queue.add(job_of(share)));
  std::string order;
  while (const auto job = queue.take()) {
    order += job->share;
    queue.done(job->share, job->weight);
  }
  EXPECT_EQ(order, "abcaa");
}

TEST(FairQueue, RefusesWhatIsTooMuchOfOneAndOfAll) {
  FairQueue queue(3, 2, 1);
  EXPECT_TRUE(queue.add(job_of("a")));
  EXPECT_TRUE(queue.add(job_of("a")));
  EXPECT_FALSE(queue.add(job_of("a")));
  EXPECT_TRUE(queue.add(job_of("a", JobWeight::light)));
  EXPECT_TRUE(queue.add(job_of("b")));
  EXPECT_FALSE(queue.add(job_of("c")));
}

TEST(FairQueue, LetsLightJobsOfTheSameShareBeside) {
  FairQueue queue(10, 10, 1);
  ASSERT_TRUE(queue.add(job_of("a")));
  ASSERT_TRUE(queue.add(job_of("a")));
  ASSERT_TRUE(queue.add(job_of("a", JobWeight::light)));
  EXPECT_EQ(queue.take()->weight, JobWeight::light);
  EXPECT_EQ(queue.take()->weight, JobWeight::heavy);
  EXPECT_FALSE(queue.take().has_value());
}

// Any order of coming, taking and ending: of a share one job of a weight runs at a time, heavy ones leave a
// place free, what may run is not held back, each share's jobs keep their order, and none is lost.
TEST(FairQueue, KeepsItsPromisesInAnyOrder) {
  constexpr size_t kMostHeavy = 2;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue(20, 8, kMostHeavy);
    using Lane = std::pair<std::string, JobWeight>;
    std::map<Lane, std::deque<int>> waiting;
    std::vector<Lane> running;
    int next = 0;
    int last_run = -1;
    for (int step = 0; step < 200; ++step) {
      const auto weight = random() % 2 == 0 ? JobWeight::light : JobWeight::heavy;
      const Lane lane{std::string(1, static_cast<char>('a' + random() % 4)), weight};
      if (random() % 2 == 0) {
        const int id = next++;
        if (queue.add(job_of(lane.first, weight, [&last_run, id] { last_run = id; })))
          waiting[lane].push_back(id);
      } else if (!running.empty() && random() % 2 == 0) {
        const size_t which = random() % running.size();
        queue.done(running[which].first, running[which].second);
        running.erase(running.begin() + static_cast<ptrdiff_t>(which));
      } else {
        const auto heavy = [](const Lane& it) { return it.second == JobWeight::heavy; };
        const auto heavy_running = static_cast<size_t>(std::count_if(running.begin(), running.end(), heavy));
        const auto may_run = [&](const auto& entry) {
          const bool busy = std::find(running.begin(), running.end(), entry.first) != running.end();
          return !entry.second.empty() && !busy && (!heavy(entry.first) || heavy_running < kMostHeavy);
        };
        const bool any = std::any_of(waiting.begin(), waiting.end(), may_run);
        auto job = queue.take();
        ASSERT_EQ(job.has_value(), any) << "seed " << seed << " step " << step;
        if (!job) continue;
        const Lane taken{job->share, job->weight};
        ASSERT_TRUE(may_run(*waiting.find(taken))) << "seed " << seed << " step " << step;
        job->run();
        ASSERT_EQ(last_run, waiting[taken].front());
        waiting[taken].pop_front();
        running.push_back(taken);
      }
    }
    const size_t left = std::accumulate(waiting.begin(), waiting.end(), size_t{0},
                                        [](size_t sum, const auto& it) { return sum + it.second.size(); });
    EXPECT_EQ(queue.empty(), left == 0);
  }
}

TEST(WorkPool, RunsLightJobsWhileHeavyOnesHoldWhatTheyMay) {
  WorkPool pool("test", 2, 10, 10);
  std::promise<void> release, light;
  auto released = release.get_future().share();
  for (const char* share : {"a", "b"})
    ASSERT_TRUE(pool.post(job_of(share, JobWeight::heavy, [released] { released.wait(); })));
  ASSERT_TRUE(pool.post(job_of("c", JobWeight::light, [&] { light.set_value(); })));
  light.get_future().wait();
  release.set_value();
}

TEST(WorkPool, EndsRunningAndWaitingWorkThroughItsMeters) {
  WorkPool pool("test", 2, 10, 10);
  std::promise<void> begun;
  std::atomic<int> ended{0};
  const auto endless = [&] {
    try {
      while (true) count_work(1);
    } catch (const WorkEnded&) {
      ++ended;
      throw;
    }
  };
  ASSERT_TRUE(pool.post(job_of("a", JobWeight::heavy, [&] {
    begun.set_value();
    endless();
  })));
  ASSERT_TRUE(pool.post(job_of("a", JobWeight::heavy, endless)));
  begun.get_future().wait();
  pool.stop_work();
  ASSERT_TRUE(pool.post(job_of("b", JobWeight::heavy, endless)));
  pool.finish();
  EXPECT_EQ(ended, 3);
  EXPECT_FALSE(pool.post(job_of("a")));
}

TEST(WorkPool, OutlivesAJobThatThrows) {
  WorkPool pool("test", 2, 10, 10);
  std::promise<void> after;
  ASSERT_TRUE(pool.post(job_of("a", JobWeight::heavy, [] { throw std::runtime_error("broken"); })));
  ASSERT_TRUE(pool.post(job_of("a", JobWeight::heavy, [&] { after.set_value(); })));
  after.get_future().wait();
}

}  // namespace
}  // namespace fulmar
