// Layers that two GPUs share, or two ranks on one where there is no other, against one GPU; and the sums
// through which they share them.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include "gpu/gpu_whole_and_parts.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

using support::sliced_on;

// Relative, of f16: both sides round, and each addend once more. The same as of any step on a GPU against the
// CPU; behind a prompt, because the first token of a zero state may lose most of its digits.
constexpr double kTolerance = 1e-2;

class GpuSlices : public GpuWholeAndParts, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    load(four_layers(GetParam(), 8, 260), {},
         [](auto devices) { return sliced_on(devices, std::vector<int64_t>{4}, 2); });
  }
};

// Long prompts are added up in two shots.
TEST_P(GpuSlices, StepsOfEverySizeAgree) {
  for (int64_t slot = 0; slot < 40; slot++) {
    const std::vector<int32_t> prompt = mixed_tokens(7, static_cast<int32_t>(slot));
    ASSERT_LT(support::relative_error(parts_->feed(slot, prompt), whole_->feed(slot, prompt)), kTolerance);
  }
  expect_steps_agree({400, 12}, kTolerance);
}

TEST_P(GpuSlices, AStateGoesOnWhereItIsTakenTo) { expect_states_go_on(kTolerance); }

// Steps of one row are made of other kernels than those of several, and come one upon the other.
TEST_P(GpuSlices, LoneRowsFollowOneAnother) {
  std::vector<float> got, want;
  for (int32_t i = 0; i < 60; i++) {
    got = parts_->feed(0, {(i * 29) % 256});
    want = whole_->feed(0, {(i * 29) % 256});
  }
  EXPECT_LT(support::relative_error(got, want), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuSlices, testing::ValuesIn(kVersions));

// So many rows that an addend is read where it lies, by the kernel behind the sum (pulls_addends); two layers
// and 2,048 channels.
class GpuWideSlices : public GpuWholeAndParts, public testing::WithParamInterface<int> {
 protected:
  static constexpr int64_t kSlots = 300;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    SyntheticSpec spec = four_layers(GetParam(), 32, 260);
    spec.n_layer = 2;
    load(
        spec, {}, [](auto devices) { return sliced_on(devices, std::vector<int64_t>{2}, 2); }, kSlots + 1);
  }
};

TEST_P(GpuWideSlices, StepsAgreeWhicheverWayTheirSumsGo) {
  const auto feeds_of = [](int64_t first, int64_t last, size_t tokens, int32_t seed) {
    std::vector<support::Feed> feeds;
    for (int64_t slot = first; slot < last; slot++) {
      feeds.push_back({slot, mixed_tokens(tokens, static_cast<int32_t>(slot) + seed)});
    }
    return feeds;
  };
  for (int64_t first = 0; first < kSlots; first += 100) {
    expect_step_agrees(feeds_of(first, first + 100, 4, 0), kTolerance, "short prompts");
  }
  for (int32_t round = 0; round < 5; round++) {  // replayed from graphs in the end
    const std::string of_round = ", round " + std::to_string(round);
    expect_step_agrees({{0, mixed_tokens(300, round)}, {1, mixed_tokens(200, round + 1)}, {2, {5}}},
                       kTolerance, "prompts" + of_round);
    for (const int64_t rows : {kSlots, int64_t{40}, int64_t{1}}) {
      expect_step_agrees(feeds_of(0, rows, 1, round), kTolerance, std::to_string(rows) + " rows" + of_round);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuWideSlices, testing::ValuesIn(kVersions));

class GpuSums : public GpuTest {
 protected:
  static constexpr int64_t kRows = 96, kCols = 2048;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!several_gpus()) GTEST_SKIP() << "this machine has one GPU";
  }
  void open(std::chrono::milliseconds timeout, std::optional<SumWay> way = {}) {
    std::vector<Ops*> group;
    for (const int index : {0, 1}) {
      devices_.push_back(open_test_gpu({.index = index}).value());
      group.push_back(devices_.back().get());
    }
    const CollectiveOptions options{kRows, kCols, timeout, {}};
    auto ends = way ? open_sums(group, options, *way) : group.front()->collectives_of(group, options);
    ASSERT_TRUE(ends.ok()) << ends.error().text;
    ends_ = std::move(*ends);
    if (ends_.empty()) GTEST_SKIP() << "the GPUs cannot reach each other's memory";
  }
  // Whole numbers, so that every sum is exact: each rank adds up many pieces of what it has, of random sizes,
  // at times late.
  void add_many(int times);

  std::vector<std::unique_ptr<Ops>> devices_;
  std::vector<std::unique_ptr<Collective>> ends_;
};

// How many sums a test makes: all of a long run where FULMAR_SUMS says so.
int sums_of_test(int otherwise) {
  if (under_racecheck()) return 50;
  const char* told = std::getenv("FULMAR_SUMS");
  return told != nullptr ? std::atoi(told) : otherwise;
}

void GpuSums::add_many(int times) {
  constexpr size_t kCount = kRows * kCols;
  struct Piece {
    int64_t first, rows;
    bool wide, parts, late[2];
  };
  std::mt19937 random(7);
  std::vector<Piece> pieces;
  for (int i = 0; i < times; i++) {
    const int64_t rows = random() % 8 == 0 ? 1 + random() % kRows : 1 + random() % 4;
    pieces.push_back({static_cast<int64_t>(random() % static_cast<uint32_t>(kRows - rows + 1)),
                      rows,
                      random() % 4 == 0,
                      random() % 8 == 0,
                      {random() % 5000 == 0, random() % 5000 == 0}});
  }
  std::vector<float> numbers[2], got[2];
  for (auto& own : numbers) {
    own.resize(kCount);
    for (float& number : own) number = static_cast<float>(static_cast<int>(random() % 9) - 4);
  }
  const auto run = [&](size_t rank) {
    Ops& ops = *devices_[rank];
    const Buffer halves = ops.allocate(kCount * 2).value(), floats = ops.allocate(kCount * 4).value();
    const Buffer sums = ops.allocate(kCount * 4).value();
    std::vector<uint16_t> narrow(kCount);
    from_f32(numbers[rank], ops.activation_dtype(), narrow.data());
    ops.write(halves.data(), narrow.data(), kCount * 2);
    ops.write(floats.data(), numbers[rank].data(), kCount * 4);
    got[rank].assign(kCount, 0.0f);
    ops.write(sums.data(), got[rank].data(), kCount * 4);
    const Tensor x = sums.matrix(DType::f32, kRows, kCols);
    for (const Piece& piece : pieces) {
      if (piece.late[rank]) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const bool wide = piece.wide || piece.parts;
      const Tensor own = wide ? floats.matrix(DType::f32, kRows, kCols)
                              : halves.matrix(ops.activation_dtype(), kRows, kCols);
      // Parts of a lone row: all of them go to the first.
      ends_[rank]->add_sum(own.slice_rows(piece.first, piece.rows),
                           x.slice_rows(piece.first, piece.parts ? 1 : piece.rows));
    }
    ops.read(got[rank].data(), sums.data(), kCount * 4);
    ends_[rank]->check();
  };
  auto other = std::async(std::launch::async, run, 1);
  run(0);
  other.get();
  std::vector<double> want(kCount);
  for (const Piece& piece : pieces) {
    for (int64_t row = piece.first; row < piece.first + piece.rows; row++) {
      const int64_t to = piece.parts ? piece.first : row;
      for (int64_t c = 0; c < kCols; c++) {
        const auto from = static_cast<size_t>(row * kCols + c);
        want[static_cast<size_t>(to * kCols + c)] += numbers[0][from] + numbers[1][from];
      }
    }
  }
  for (const auto& sums : got) {
    EXPECT_TRUE(std::equal(sums.begin(), sums.end(), want.begin(), want.end()));
  }
}

TEST_F(GpuSums, OfRandomSizesAreExact) {
  open(std::chrono::milliseconds(20'000));
  if (!IsSkipped()) add_many(sums_of_test(100'000));
}

TEST_F(GpuSums, OfEveryWayAreExact) {
  for (const SumWay way : {SumWay::flagged, SumWay::one_shot, SumWay::two_shot, SumWay::library}) {
    devices_.clear();
    open(std::chrono::milliseconds(20'000), way);
    if (IsSkipped()) return;  // the library, which comes last, may not be there
    add_many(sums_of_test(10'000) / 10);
    ends_.clear();
  }
}

TEST_F(GpuSums, ARankThatIsASecondLateIsWaitedFor) {
  open(std::chrono::milliseconds(20'000));
  if (IsSkipped()) return;
  const auto run = [&](size_t rank) {
    Ops& ops = *devices_[rank];
    std::vector<float> one(kCols, 1.0f), sum(kCols, 0.0f);
    const Buffer own = ops.allocate(kCols * 4).value(), x = ops.allocate(kCols * 4).value();
    ops.write(own.data(), one.data(), kCols * 4);
    ops.write(x.data(), sum.data(), kCols * 4);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    ends_[rank]->add_sum(own.matrix(DType::f32, 1, kCols), x.matrix(DType::f32, 1, kCols));
    ops.read(sum.data(), x.data(), kCols * 4);
    ends_[rank]->check();
    return sum == std::vector<float>(kCols, 2.0f);
  };
  auto late = std::async(std::launch::async, run, 1);
  EXPECT_TRUE(run(0));
  EXPECT_TRUE(late.get());
}

TEST_F(GpuSums, ARankThatDoesNotComeIsNamed) {
  open(std::chrono::milliseconds(200));
  if (IsSkipped()) return;
  Ops& ops = *devices_[0];
  const Buffer own = ops.allocate(kCols * 4).value(), x = ops.allocate(kCols * 4).value();
  try {
    ends_[0]->add_sum(own.matrix(DType::f32, 1, kCols), x.matrix(DType::f32, 1, kCols));
    FAIL() << "nobody was missed";
  } catch (const DeviceFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("has waited 200 ms for rank 1 (cuda:1"), std::string::npos)
        << failure.what();
  }
}

}  // namespace
}  // namespace fulmar
