// Two GPUs in one process, each with a model of its own: in turn on one thread, and at once on two.
#include <thread>

#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Feed;
using support::ModelRig;
using Logits = std::vector<std::vector<float>>;

// Half states and row counts that meet every kernel which is told once per device what it may use.
SyntheticSpec spec_of(int version) {
  SyntheticSpec spec{.version = version, .n_layer = 2, .n_head = 4, .head_size = 64, .vocab = 256};
  spec.n_ffn = 1024;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 32;
  spec.dtype = DType::f16;
  return spec;
}

Logits round_of_steps(ModelRig& rig, int32_t round) {
  Logits logits;
  const auto keep = [&](Logits more) { logits.insert(logits.end(), more.begin(), more.end()); };
  for (const int64_t rows : {1, 4, 12, 40}) {
    std::vector<Feed> feeds;
    for (int64_t slot = 0; slot < rows; slot++) feeds.push_back({slot, {static_cast<int32_t>(slot) + round}});
    keep(rig.step(feeds));
  }
  std::vector<int32_t> prompt(70);
  for (size_t i = 0; i < prompt.size(); i++) prompt[i] = static_cast<int32_t>(i * 37 % 256);
  keep(rig.step({{41, prompt}}));
  return logits;
}

class GpuTwoDevices : public GpuTest, public testing::WithParamInterface<int> {
 protected:
  static constexpr int kDevices = 2, kRounds = 4;
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (list_gpus().size() < kDevices) GTEST_SKIP() << "this machine has one GPU";
    for (int i = 0; i < kDevices; i++) {
      auto opened = open_test_gpu({.index = i, .half_state = true});
      ASSERT_TRUE(opened.ok()) << opened.error().text;
      ops_[i] = std::move(opened).value();
      rigs_[i] = std::make_unique<ModelRig>(synthetic_checkpoint(spec_of(GetParam())), *ops_[i], 44);
      ASSERT_TRUE(rigs_[i]->loaded());
    }
  }
  void clear(int i) {
    for (int64_t slot = 0; slot < 44; slot++) rigs_[i]->pool().zero(slot);
  }
  std::vector<Logits> all_rounds(int i) {
    clear(i);
    std::vector<Logits> all;
    for (int round = 0; round < kRounds; round++) all.push_back(round_of_steps(*rigs_[i], round));
    return all;
  }

  std::unique_ptr<Ops> ops_[kDevices];
  std::unique_ptr<ModelRig> rigs_[kDevices];
};

TEST_P(GpuTwoDevices, InTurnOrAtOnceEachGivesWhatItGivesAlone) {
  const std::vector<Logits> want[] = {all_rounds(0), all_rounds(1)};
  clear(0), clear(1);
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kDevices; i++) {
      EXPECT_EQ(round_of_steps(*rigs_[i], round), want[i][static_cast<size_t>(round)]) << "GPU " << i;
    }
  }
  std::vector<Logits> got[kDevices];
  std::thread other([&] { got[1] = all_rounds(1); });
  got[0] = all_rounds(0);
  other.join();
  for (int i = 0; i < kDevices; i++) EXPECT_EQ(got[i], want[i]) << "GPU " << i << ", both at once";
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuTwoDevices, testing::ValuesIn(kVersions));

// What is left of a slot is on the GPU that it belongs to, whichever the thread used last.
TEST_P(GpuTwoDevices, SlotsAreReadAndWrittenWhereTheyLie) {
  const State first = rigs_[0]->pool().view(), second = rigs_[1]->pool().view();
  std::vector<std::byte> bytes(first.layout.slot_bytes()), back(bytes.size());
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i * 131 % 251);
  ops_[1]->zero_slot(second, 0);
  ops_[0]->write_slot(first, 1, bytes);
  ops_[1]->write_slot(second, 3, bytes);
  ops_[0]->copy_slot(first, 1, 2);
  ops_[1]->copy_slot(second, 3, 4);
  ops_[0]->read_slot(first, 2, back);
  EXPECT_TRUE(back == bytes);
  ops_[1]->read_slot(second, 4, back);
  EXPECT_TRUE(back == bytes);
  ops_[1]->read_slot(second, 0, back);
  EXPECT_TRUE(std::all_of(back.begin(), back.end(), [](std::byte b) { return b == std::byte{0}; }));
}

}  // namespace
}  // namespace fulmar
