// Messages between two devices through host memory.
#include "ranks/host_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "cpu/cpu_ops.h"
#include "ops/device.h"

namespace fulmar {
namespace {

constexpr int64_t kRows = 3, kCols = 8;
constexpr size_t kBytes = 2 * kRows * kCols * sizeof(float);

// Two tensors of one message, on one device.
struct Ends {
  explicit Ends(Ops& ops) : memory(ops.allocate(kBytes).value()) {
    float* numbers = static_cast<float*>(memory.data());
    first = {numbers, DType::f32, kRows, kCols, kCols};
    second = {numbers + kRows * kCols, DType::f32, 1, kCols, kCols};
  }
  void fill(float value) {
    std::fill_n(first.as<float>(), first.count(), value);
    std::fill_n(second.as<float>(), second.count(), -value);
  }
  bool holds(float value) const {
    bool same = true;
    for (int64_t i = 0; i < first.count(); i++) same = same && first.as<float>()[i] == value;
    for (int64_t i = 0; i < second.count(); i++) same = same && second.as<float>()[i] == -value;
    return same;
  }
  std::vector<Tensor> message() const { return {first, second}; }

  Buffer memory;
  Tensor first, second;
};

class HostChannelTest : public testing::Test {
 protected:
  const std::unique_ptr<Ops> sender_ = make_cpu_ops({.threads = 1}), receiver_ = make_cpu_ops({.threads = 1});
  const std::unique_ptr<Channel> channel_ = make_host_channel(*sender_, *receiver_, kBytes);
  Ends from_{*sender_}, to_{*receiver_};
};

TEST_F(HostChannelTest, MessagesComeInOrderWhateverTheSenderWritesNext) {
  constexpr int kMessages = 500;
  std::thread sender([&] {
    for (int i = 1; i <= kMessages; i++) {
      from_.fill(static_cast<float>(i));
      channel_->send(from_.message());
    }
  });
  for (int i = 1; i <= kMessages; i++) {
    channel_->receive(to_.message());
    ASSERT_TRUE(to_.holds(static_cast<float>(i))) << "message " << i;
  }
  sender.join();
}

TEST_F(HostChannelTest, ASenderWaitsWhileNobodyReceives) {
  std::atomic<int> sent = 0;
  std::thread sender([&] {
    for (int i = 0; i <= Channel::kMostUnderWay; i++) {
      channel_->send(from_.message());
      sent++;
    }
  });
  while (sent < Channel::kMostUnderWay) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(sent, Channel::kMostUnderWay);
  channel_->receive(to_.message());
  sender.join();
  EXPECT_EQ(sent, Channel::kMostUnderWay + 1);
}

TEST_F(HostChannelTest, AClosedChannelLetsNobodyWait) {
  auto waiting = std::async(std::launch::async, [&] { channel_->receive(to_.message()); });
  channel_->close("the bus has gone");
  try {
    waiting.get();
    FAIL() << "received from a closed channel";
  } catch (const DeviceFailure& failure) {
    EXPECT_STREQ(failure.what(), "the bus has gone");
  }
  EXPECT_THROW(channel_->send(from_.message()), DeviceFailure);
}

}  // namespace
}  // namespace fulmar
