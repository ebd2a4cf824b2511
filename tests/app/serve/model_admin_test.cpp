// What becomes of the administrator's thread when a job fails.
#include "app/serve/model_admin.h"

#include <gtest/gtest.h>

#include <future>
#include <new>

namespace fulmar {
namespace {

TEST(LocalAdmin, AnExceptionEndsItsJobAlone) {
  ModelRegistry models;
  ServeEngineFlags engine;
  engine.sessions.session_db = "none";
  auto sessions = SessionLadders::open(engine.sessions);
  ASSERT_TRUE(sessions.ok()) << sessions.error().text;
  LocalAdmin admin(models, **sessions, {}, engine, {});
  std::promise<void> next;
  EXPECT_TRUE(admin.post([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(admin.post([&] { next.set_value(); }));
  next.get_future().wait();
}

}  // namespace
}  // namespace fulmar
