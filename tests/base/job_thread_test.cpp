// Jobs, their queue, and what an exception does.
#include "base/job_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>

namespace fulmar {
namespace {

TEST(JobThread, RunsWhatWaitsBeforeItEnds) {
  std::vector<int> order;
  JobThread thread("test", 0);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(thread.post([&order, i] { order.push_back(i); }));
  thread.finish();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_FALSE(thread.post([] {}));
}

TEST(JobThread, OneThatSpinsRunsWhatComesAndEndsAtOnce) {
  int seen = 0;
  JobThread thread("test", 0, std::chrono::hours(1));
  for (int i = 0; i < 100; ++i) {
    std::promise<void> done;
    thread.post([&] {
      seen++;
      done.set_value();
    });
    done.get_future().wait();
  }
  thread.finish();
  EXPECT_EQ(seen, 100);
}

TEST(JobThread, RefusesBeyondItsQueue) {
  std::promise<void> begun, go_on;
  JobThread thread("test", 1);
  ASSERT_TRUE(thread.post([&] {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(thread.post([] {}));
  EXPECT_FALSE(thread.post([] {}));
  go_on.set_value();
}

TEST(JobThread, AnExceptionEndsItsJobAlone) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  std::promise<bool> gone;
  JobThread thread("test", 0);
  thread.post([held = std::move(held)] { throw std::bad_alloc(); });
  thread.post([&] { gone.set_value(watched.expired()); });
  EXPECT_TRUE(gone.get_future().get());
}

}  // namespace
}  // namespace fulmar
