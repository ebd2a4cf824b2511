// A device without free memory: what is loaded runs on, and gives the same answers.
#include "files/synthetic.h"
#include "gpu/device/full_device.h"
#include "gpu/gpu_device.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::ModelRig;
using Logits = std::vector<std::vector<float>>;

class FullDevice {
 public:
  FullDevice() { gpu::pretend_full = true; }
  ~FullDevice() { gpu::pretend_full = false; }
};

std::vector<int32_t> tokens(size_t count, size_t seed) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < count; i++) out.push_back(static_cast<int32_t>((i * 131 + seed * 17) % 256));
  return out;
}

// Prompts alone and together, long and short, and decode steps of several sizes, each often enough to be
// recorded.
Logits all_kinds_of_steps(ModelRig& rig) {
  Logits logits;
  const auto keep = [&](Logits more) { logits.insert(logits.end(), more.begin(), more.end()); };
  for (int64_t slot = 0; slot < 8; slot++) rig.pool().zero(slot);
  keep(rig.step({{0, tokens(512, 1)}}));
  keep(rig.step({{1, tokens(300, 2)}, {2, tokens(17, 3)}, {3, tokens(1, 4)}}));
  keep(rig.step({{4, tokens(9, 5)}, {5, tokens(16, 6)}, {6, tokens(33, 7)}, {7, tokens(200, 8)}}));
  for (int64_t together : {1, 2, 8}) {
    for (size_t i = 0; i < 4; i++) {
      std::vector<support::Feed> feeds;
      for (int64_t slot = 0; slot < together; slot++)
        feeds.push_back({slot, tokens(1, i + static_cast<size_t>(slot))});
      keep(rig.step(feeds));
    }
  }
  return logits;
}

class GpuMemory : public GpuTest, public testing::WithParamInterface<int> {};

TEST_P(GpuMemory, ALoadedModelAsksForNothingMore) {
  SyntheticSpec spec{.version = GetParam(), .n_layer = 2, .n_head = 8, .head_size = 64, .vocab = 256};
  spec.n_ffn = 2048;
  spec.rank_w = spec.rank_a = spec.rank_decay = 64;
  spec.rank_v = spec.rank_mix = 32;
  spec.rank_g = 128;
  spec.dtype = DType::f16;
  Logits want;
  {
    auto ops = open_test_gpu();
    ASSERT_TRUE(ops.ok());
    ModelRig rig(synthetic_checkpoint(spec), **ops, 8);
    ASSERT_TRUE(rig.loaded());
    want = all_kinds_of_steps(rig);
  }
  auto ops = open_test_gpu();
  ASSERT_TRUE(ops.ok());
  ModelRig rig(synthetic_checkpoint(spec), **ops, 8);
  ASSERT_TRUE(rig.loaded());
  const FullDevice full;
  EXPECT_FALSE((*ops)->allocate(1).ok());
  EXPECT_EQ(all_kinds_of_steps(rig), want);
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuMemory, testing::ValuesIn(kVersions));

TEST_F(GpuTest, BytesComeBackAsTheyWent) {
  constexpr size_t kMiB = size_t{1} << 20;
  for (const size_t bytes : {size_t{1}, kMiB, 4 * kMiB + 1, 8 * kMiB, 41 * kMiB + 3}) {
    SCOPED_TRACE(bytes);
    auto memory = gpu().allocate(bytes);
    ASSERT_TRUE(memory.ok());
    std::vector<uint8_t> went(bytes), came(bytes);
    for (size_t i = 0; i < bytes; i++) went[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    gpu().write(memory->data(), went.data(), bytes);
    gpu().read(came.data(), memory->data(), bytes);
    EXPECT_TRUE(came == went);
  }
}

TEST_F(GpuTest, DrawsGoOnWithoutMemoryForTheirParameters) {
  constexpr int64_t kVocab = 5000, kRows = 12;
  auto ops = open_test_gpu();
  ASSERT_TRUE(ops.ok());
  auto memory = (*ops)->allocate(kRows * kVocab * sizeof(float));
  ASSERT_TRUE(memory.ok());
  std::vector<float> host;
  for (int64_t i = 0; i < kRows * kVocab; i++) host.push_back(static_cast<float>(i * 7919 % 10007) / 1000);
  (*ops)->write(memory->data(), host.data(), host.size() * sizeof(float));
  ASSERT_TRUE((*ops)->reserve_scratch(host.size() * sizeof(float)).ok());

  SamplingParams params;
  params.temperature = 0;
  for (int32_t id = 0; id < kVocab; id += 2) params.banned.push_back(id);
  std::vector<SampleRow> rows;
  for (int32_t i = 0; i < kRows; i++) rows.push_back({.logits_row = i, .params = &params});
  std::vector<SampledToken> got(kRows);
  const FullDevice full;
  (*ops)->sample(memory->matrix(DType::f32, kRows, kVocab), rows, got);
  for (int64_t i = 0; i < kRows; i++) {
    std::vector<float> logits(host.begin() + i * kVocab, host.begin() + (i + 1) * kVocab);
    EXPECT_EQ(got[static_cast<size_t>(i)].token, sample_row(logits, rows[static_cast<size_t>(i)]).token);
  }
}

}  // namespace
}  // namespace fulmar
