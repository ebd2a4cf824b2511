// Which writes reach a store that has not room for all.
#include "cache/split_writes.h"

#include <gtest/gtest.h>

#include <random>

namespace fulmar {
namespace {

SessionWrite write_of(size_t bytes) {
  auto blob = std::make_shared<StateBlob>();
  blob->payload.resize(bytes);
  return {"s", blob};
}

// A disk with room for some bytes, that counts transactions.
struct SmallDisk {
  size_t room = 0;
  int tries = 0;
  ErrorKind failure = ErrorKind::resource;

  Result<std::vector<bool>> store(std::span<const SessionWrite> writes) {
    tries++;
    size_t bytes = 0;
    for (const SessionWrite& write : writes) bytes += write.blob->payload.size();
    if (bytes > room) return Error{failure, "no room"};
    room -= bytes;
    return std::vector<bool>(writes.size(), true);
  }
};

std::vector<Result<bool>> store_on(SmallDisk& disk, const std::vector<SessionWrite>& writes) {
  return store_what_fits(writes, [&](std::span<const SessionWrite> some) { return disk.store(some); });
}

// However large the writes and the disk: what is left out would not have fitted any more, and there is one
// outcome for each.
TEST(SplitWrites, LeaveOutOnlyWhatDoesNotFit) {
  std::mt19937 random(7);
  for (int run = 0; run < 2000; ++run) {
    std::vector<SessionWrite> writes;
    size_t total = 0;
    for (size_t i = random() % 20; i > 0; --i) writes.push_back(write_of(1 + random() % 9));
    for (const SessionWrite& write : writes) total += write.blob->payload.size();
    SmallDisk disk{.room = random() % (total + 2)};
    const auto outcomes = store_on(disk, writes);
    ASSERT_EQ(outcomes.size(), writes.size());
    for (size_t i = 0; i < writes.size(); ++i) {
      const bool left_out = !outcomes[i].ok();
      if (left_out) {
        EXPECT_GT(writes[i].blob->payload.size(), disk.room);
      }
    }
  }
}

TEST(SplitWrites, AFullDiskIsAskedFewTimes) {
  SmallDisk disk{.room = 0};
  const auto outcomes = store_on(disk, std::vector<SessionWrite>(1024, write_of(8)));
  EXPECT_EQ(outcomes.size(), 1024u);
  EXPECT_LE(disk.tries, 11) << "halves down to one, then none of that size";
}

TEST(SplitWrites, OtherFailuresAreNotTriedInParts) {
  SmallDisk disk{.room = 0, .failure = ErrorKind::io};
  const auto outcomes = store_on(disk, std::vector<SessionWrite>(8, write_of(8)));
  EXPECT_EQ(disk.tries, 1);
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace fulmar
