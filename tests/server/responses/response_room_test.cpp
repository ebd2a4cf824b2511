// How much room whoever comes gets, and what is said where there is none.
#include "server/responses/response_room.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

TEST(ResponseRoom, HoweverManyTakeWhatTheyCanTheNextFindsSome) {
  constexpr RoomBounds kBounds{256 << 20, 1024 << 20};
  int64_t all = 0, last = kBounds.all;
  for (int owner = 0; owner < 12; ++owner) {
    const int64_t room = room_of(0, all, kBounds);
    EXPECT_LE(room, kBounds.owner);
    EXPECT_LE(room, last);
    EXPECT_GE(room, 100 << 10) << owner;
    EXPECT_EQ(room_of(room, all, kBounds), room) << "what one has got is kept";
    all += last = room;
    EXPECT_LE(all, kBounds.all);
  }
}

TEST(ResponseRoom, RefusalsSayWhoseBytesAreInTheWay) {
  constexpr RoomBounds kBounds{100, 400};
  EXPECT_FALSE(refuse_more({.lasting = 40, .passing = 60}, 100, 60, kBounds, "Yours"));
  EXPECT_EQ(refuse_more({}, 0, 101, kBounds, "Yours")->status, 413);
  EXPECT_EQ(refuse_more({.lasting = 41, .passing = 59}, 0, 60, kBounds, "Yours")->status, 429);
  const auto full = refuse_more({.lasting = 10, .passing = 0}, 340, 50, kBounds, "Yours");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->status, 503);
  EXPECT_NE(full->text.find("350 bytes: 50 of"), std::string::npos) << full->text;
  EXPECT_FALSE(refuse_more({.lasting = 10, .passing = 50}, 340, 50, kBounds, "Yours")) << "its own go";
  EXPECT_EQ(surplus({.lasting = 10, .passing = 50}, 340, 50, kBounds), 50);
}

}  // namespace
}  // namespace fulmar
