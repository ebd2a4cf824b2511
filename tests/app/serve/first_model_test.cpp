// A model that arrives and a signal that says stop, in every order.
#include "app/serve/first_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

namespace fulmar {
namespace {

TEST(FirstModel, IsNotServedOnceTheEndHasCome) {
  FirstModel first;
  EXPECT_TRUE(first.end());
  EXPECT_FALSE(first.serve([] { FAIL() << "the process is about to end"; }));
  EXPECT_TRUE(first.end()) << "nothing was served since";
}

TEST(FirstModel, ThatServesIsNeverCutOff) {
  FirstModel first;
  bool served = false;
  EXPECT_TRUE(first.serve([&] { served = true; }));
  EXPECT_TRUE(served);
  EXPECT_FALSE(first.end());
}

TEST(FirstModel, ThatFailsWhileItIsMadeKnownMayHaveServed) {
  FirstModel first;
  EXPECT_THROW(first.serve([] { throw std::runtime_error("no memory"); }), std::runtime_error);
  EXPECT_FALSE(first.end());
}

// Clients find it in the midst of serve(): whoever asks for the end then has to wait for the answer.
TEST(FirstModel, IsFoundBeforeAnybodyHasHeardOfIt) {
  FirstModel first;
  std::promise<void> found, go_on;
  std::thread loading([&] {
    EXPECT_TRUE(first.serve([&] {
      found.set_value();
      go_on.get_future().wait();
    }));
  });
  found.get_future().wait();
  std::atomic<bool> at_once = true;
  std::thread ending([&] { at_once = first.end(); });
  go_on.set_value();
  ending.join();
  loading.join();
  EXPECT_FALSE(at_once);
}

}  // namespace
}  // namespace fulmar
