// The ring of stages between a producer and the warp groups that multiply, as a simulation: copies come in
// any order, and whoever can go on may be the next to do so. Needs no GPU.
#include "gpu/gemm/sm90/ring_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace fulmar {
namespace {

using gpu::StageBarrier;

// What an mbarrier of one arrival does, a consumer standing for its groups: a phase ends with that and its
// bytes, and a wait sees a parity of it.
class Barrier {
 public:
  bool waits(uint32_t parity) const { return phase_ % 2 == parity; }
  void arrive() {
    ASSERT_TRUE(pending_) << "an arrival beyond the phase's last";
    end();
  }
  // An arrival that announces bytes: the phase ends when they have come.
  void expect() {
    ASSERT_TRUE(pending_) << "announced again before the bytes came";
    pending_ = false;
  }
  void end() { pending_ = true, phase_++; }

 private:
  bool pending_ = true;  // the arrival
  uint32_t phase_ = 0;
};

template <int kStages, int kSlices>
class RingSimulation {
 public:
  RingSimulation(std::vector<int> segments, unsigned seed) : segments_(std::move(segments)), random_(seed) {
    for (int slice = 0; slice < kSlices; slice++) consumers_.push_back(Consumer(slice));
  }

  // Every step's data are read by whom they are for, once; false: nobody can go on.
  bool run() {
    while (!done() && !testing::Test::HasFatalFailure()) {
      std::vector<int> order(kSlices + 2);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const int who : order) {
        moved = who == 0   ? produce()
                : who == 1 ? deliver()
                           : consume(consumers_[static_cast<size_t>(who - 2)]);
        if (moved) break;
      }
      if (!moved) return false;
    }
    return true;
  }

  const std::vector<int>& read() const { return read_; }

 private:
  struct Consumer {
    explicit Consumer(int slice) : steps(slice) {}
    gpu::SliceSteps<kSlices> steps;
    gpu::RingPlace<kStages> ring;
    int segment = 0, first = 0, step = 0;  // first: the segment's on the line of all steps
    bool inside = false;                   // a segment
    std::optional<int> previous;           // the stage that it has still to leave
  };

  int total() const { return std::accumulate(segments_.begin(), segments_.end(), 0); }
  bool done() const { return static_cast<int>(read_.size()) == total(); }

  bool produce() {
    if (produced_ == total()) return false;
    const auto place = static_cast<size_t>(producer_.place);
    if (produced_ >= kStages && empty_[place].waits(producer_.phase ^ 1)) return false;
    full_[place].expect();
    coming_.push_back(produced_++);
    producer_.next();
    return true;
  }
  bool deliver() {
    if (coming_.empty()) return false;
    const size_t which = random_() % coming_.size();
    const int step = coming_[which];
    coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(which));
    stage_[static_cast<size_t>(step % kStages)] = step;
    full_[static_cast<size_t>(step % kStages)].end();
    return true;
  }
  bool consume(Consumer& at) {
    if (!at.inside) return enter(at);
    bool waits = false;
    gpu::for_each_wait<kSlices>(at.ring.phase, [&](StageBarrier which, uint32_t parity) {
      waits |=
          (which == StageBarrier::full ? full_ : empty_)[static_cast<size_t>(at.ring.place)].waits(parity);
    });
    if (waits) return false;
    const int step = at.first + at.step;
    EXPECT_EQ(stage_[static_cast<size_t>(at.ring.place)], step) << "another step's data";
    read_.push_back(step);
    leave(at);
    at.previous = at.ring.place;
    if (!at.steps.next(at.step, segments_[static_cast<size_t>(at.segment)], at.ring)) end_segment(at);
    return true;
  }
  bool enter(Consumer& at) {
    if (at.segment == static_cast<int>(segments_.size())) return false;
    for (const Consumer& other : consumers_) {
      if (other.segment < at.segment) return false;  // all meet between segments
    }
    at.step = at.steps.first();
    at.inside = true;
    if (!at.steps.enter(segments_[static_cast<size_t>(at.segment)], at.ring)) end_segment(at);
    return true;
  }
  void end_segment(Consumer& at) {
    leave(at);
    at.first += segments_[static_cast<size_t>(at.segment++)];
    at.inside = false;
  }
  void leave(Consumer& at) {
    if (at.previous) empty_[static_cast<size_t>(*at.previous)].arrive();
    at.previous.reset();
  }

  std::vector<int> segments_;
  std::mt19937 random_;
  std::vector<Barrier> full_ = std::vector<Barrier>(kStages), empty_ = full_;
  std::vector<int> stage_ = std::vector<int>(kStages, -1);  // whose data each has
  gpu::RingPlace<kStages> producer_;
  int produced_ = 0;
  std::vector<int> coming_, read_;
  std::vector<Consumer> consumers_;
};

template <int kStages, int kSlices>
void expect_each_step_read_once(const std::vector<int>& segments) {
  for (unsigned seed = 0; seed < 300; seed++) {
    RingSimulation<kStages, kSlices> ring(segments, seed);
    ASSERT_TRUE(ring.run()) << "nobody can go on";
    if (testing::Test::HasFailure()) return;
    std::vector<int> read = ring.read();
    std::sort(read.begin(), read.end());
    for (size_t i = 0; i < read.size(); i++) ASSERT_EQ(read[i], static_cast<int>(i));
  }
}
template <int kStages, int kSlices>
void expect_all_segments_read() {
  expect_each_step_read_once<kStages, kSlices>({32});
  expect_each_step_read_once<kStages, kSlices>({5, 9, 1, 3, 17, 2});
  expect_each_step_read_once<kStages, kSlices>({1, 1, 4, 7, 8, 8, 40});
}

TEST(Ring, OneConsumerReadsEveryStepOfItsOwn) {
  expect_all_segments_read<4, 1>();
  expect_all_segments_read<7, 1>();
}

TEST(Ring, SlicesReadTheirStepsThoughCopiesOvertakeOneAnother) {
  expect_all_segments_read<7, 2>();
  expect_all_segments_read<8, 2>();
  expect_all_segments_read<7, 4>();
  expect_all_segments_read<8, 4>();
  expect_all_segments_read<5, 4>();
}

}  // namespace
}  // namespace fulmar
