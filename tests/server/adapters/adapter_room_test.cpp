// Who leaves a device so that another adapter fits, compared with a plain model over random sequences.
#include "server/adapters/adapter_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

namespace fulmar {
namespace {

using Way = RoomPlan::Way;

TEST(AdapterRoom, TheLongestUnusedGoFirstAndNoMoreThanNeeded) {
  const std::vector<HeldAdapter> held = {{10, 3, false}, {10, 1, false}, {10, 2, true}, {10, 4, false}};
  EXPECT_EQ(plan_room(held, 10, 50).leaving, std::vector<size_t>());
  EXPECT_EQ(plan_room(held, 10, 40).leaving, (std::vector<size_t>{1}));
  EXPECT_EQ(plan_room(held, 11, 40).leaving, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(plan_room(held, 31, 40).way, Way::busy);
  EXPECT_EQ(plan_room(held, 41, 40).way, Way::never);
  EXPECT_EQ(plan_room({}, 40, 40).way, Way::fits);
  EXPECT_EQ(plan_room({}, ~uint64_t{0}, 40).way, Way::never);
}

// A device as a list from the longest unused to the latest used.
struct PlainDevice {
  struct One {
    int id;
    uint64_t bytes;
    int rows;
  };
  std::list<One> order;

  uint64_t taken() const {
    uint64_t sum = 0;
    for (const One& one : order) sum += one.bytes;
    return sum;
  }
  uint64_t busy() const {
    uint64_t sum = 0;
    for (const One& one : order) sum += one.rows > 0 ? one.bytes : 0;
    return sum;
  }
};

TEST(AdapterRoom, RandomSequencesDoWhatAPlainListWould) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(0, most - 1)(random);
  };
  int64_t evictions = 0, refusals = 0;
  for (int round = 0; round < 200; round++) {
    const uint64_t budget = 20 + below(60);
    PlainDevice device;
    std::vector<uint64_t> sizes(12);
    for (uint64_t& size : sizes) size = 1 + below(40);
    for (int step = 0; step < 100; step++) {
      const int id = static_cast<int>(below(sizes.size()));
      const auto is = [&](const PlainDevice::One& one) { return one.id == id; };
      auto here = std::find_if(device.order.begin(), device.order.end(), is);
      if (below(3) == 0) {  // a row ends
        if (here != device.order.end() && here->rows > 0) here->rows--;
        continue;
      }
      if (here == device.order.end()) {
        std::vector<HeldAdapter> held;
        uint64_t used = 0;
        for (const auto& one : device.order) held.push_back({one.bytes, ++used, one.rows > 0});
        const uint64_t wanted = sizes[static_cast<size_t>(id)];
        const RoomPlan plan = plan_room(held, wanted, budget);
        const Way wanted_way = wanted > budget                   ? Way::never
                               : wanted + device.busy() > budget ? Way::busy
                                                                 : Way::fits;
        ASSERT_EQ(plan.way, wanted_way);
        std::vector<int> left;
        for (const size_t i : plan.leaving)
          left.push_back(std::next(device.order.begin(), static_cast<int64_t>(i))->id);
        std::vector<int> should;
        while (wanted_way == Way::fits && device.taken() + wanted > budget) {
          const auto idle = std::find_if(device.order.begin(), device.order.end(),
                                         [](const auto& one) { return one.rows == 0; });
          should.push_back(idle->id);
          device.order.erase(idle);
        }
        ASSERT_EQ(left, should);
        evictions += static_cast<int64_t>(left.size());
        refusals += wanted_way != Way::fits;
        if (wanted_way != Way::fits) continue;
        here = device.order.insert(device.order.end(), {id, wanted, 0});
      }
      here->rows++;
      device.order.splice(device.order.end(), device.order, here);
      ASSERT_LE(device.taken(), budget);
    }
  }
  EXPECT_GT(evictions, 200);
  EXPECT_GT(refusals, 200);
}

}  // namespace
}  // namespace fulmar
