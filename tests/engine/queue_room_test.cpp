// Who may let how much wait for a slot.
#include "engine/queue_room.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

constexpr QueueUse kMost{.requests = 100, .rows = 1000, .bytes = 10'000};
constexpr QueueUse kSmall{.requests = 1, .rows = 1, .bytes = 10};

int64_t taken(QueueRoom& room, const std::string& owner, const QueueUse& use) {
  int64_t requests = 0;
  while (room.take(owner, use).ok()) requests++;
  return requests;
}

TEST(QueueRoom, AnOwnerWhoTakesAllThatItCanLeavesRoomForTheNext) {
  QueueRoom room(kMost);
  EXPECT_EQ(taken(room, "alice", kSmall), 50);
  EXPECT_EQ(taken(room, "bob", kSmall), 25);
  for (const char* owner : {"carol", "dave", "eve", "frank"}) EXPECT_GT(taken(room, owner, kSmall), 0);
  room.give_back("alice", kSmall);
  EXPECT_FALSE(room.take("alice", kSmall).ok()) << "others hold more of it now";
}

TEST(QueueRoom, EachOfTheThreeNumbersIsShared) {
  QueueRoom rows(kMost), bytes(kMost);
  EXPECT_EQ(taken(rows, "alice", {.requests = 1, .rows = 100, .bytes = 10}), 5);
  EXPECT_EQ(taken(rows, "bob", {.requests = 1, .rows = 100, .bytes = 10}), 2);
  EXPECT_EQ(taken(bytes, "alice", {.requests = 1, .rows = 1, .bytes = 1000}), 5);
  EXPECT_EQ(taken(bytes, "bob", {.requests = 1, .rows = 1, .bytes = 1000}), 2);
}

TEST(QueueRoom, ARefusalNamesWhatWaitsAndWhatMay) {
  QueueRoom room(kMost);
  taken(room, "alice", kSmall);
  EXPECT_EQ(
      room.take("alice", kSmall).error().text,
      "Request queue full for this key: 50 of its requests wait, and 1 more do not fit into the 50 that "
      "may be its own now");
}

TEST(QueueRoom, TheServersOwnMayTakeAll) {
  QueueRoom room(kMost);
  EXPECT_EQ(taken(room, "", kSmall), 100);
  EXPECT_EQ(room.take("alice", kSmall).error().text, "Request queue full");
}

TEST(QueueRoom, WhereNobodyWaitsARequestMayHaveAnyNumberOfRows) {
  QueueRoom room(kMost);
  const QueueUse large{.requests = 1, .rows = 5000, .bytes = 500'000};
  EXPECT_TRUE(room.take("alice", large).ok());
  EXPECT_FALSE(room.take("alice", kSmall).ok());
  EXPECT_FALSE(room.take("bob", kSmall).ok());
  room.give_back("alice", large);
  EXPECT_EQ(room.all(), QueueUse{});
  EXPECT_TRUE(room.take("bob", large).ok());
}

TEST(QueueRoom, WhatWasTakenComesBackWhole) {
  QueueRoom room(kMost);
  ASSERT_TRUE(room.take("alice", {.requests = 1, .rows = 2, .bytes = 30}).ok());
  room.give_back("alice", {.requests = 1, .rows = 1, .bytes = 10});
  EXPECT_EQ(room.all(), (QueueUse{.requests = 0, .rows = 1, .bytes = 20}));
  room.give_back("alice", {.rows = 1, .bytes = 20});
  EXPECT_EQ(room.all(), QueueUse{});
}

}  // namespace
}  // namespace fulmar
