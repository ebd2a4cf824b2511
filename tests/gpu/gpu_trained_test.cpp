// Trained and golden models on the GPU: digit strings reversed, and the logits of the golden files.
#include <algorithm>
#include <filesystem>
#include <random>

#include "gpu/gpu_device.h"
#include "support/golden.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Json;
using support::ModelRig;
using Tokens = std::vector<int32_t>;

constexpr int32_t kEnd = 0, kComma = 11;

class GpuReverse : public GpuTest, public testing::WithParamInterface<std::pair<const char*, int>> {};

// Numbers of 1 to 60 digits, ten of each length, all of one length in one step; the set that the model itself
// gets right in double precision (tests/model/trained_test.cpp says which sets it does not).
TEST_P(GpuReverse, TurnsDigitsAround) {
  const auto [file, wanted_right] = GetParam();
  const auto path = support::shared_folder() / "models" / "rwkv7-reverse" / file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no trained models beside this checkout";
  auto opened = open_checkpoint(path);
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  ModelRig rig(std::move(opened).value(), gpu(), 10, {.max_rows = 1024, .progress = {}});
  ASSERT_TRUE(rig.loaded());
  std::mt19937 random(14);
  int right = 0;
  for (size_t length = 1; length <= 60; length++) {
    std::vector<support::Feed> feeds;
    std::vector<Tokens> answers;
    for (int64_t slot = 0; slot < 10; slot++) {
      Tokens digits{static_cast<int32_t>(random() % 9) + 2};  // no leading zeros, as in training
      while (digits.size() < length) digits.push_back(static_cast<int32_t>(random() % 10) + 1);
      answers.emplace_back(digits.rbegin(), digits.rend()).push_back(kEnd);
      digits.push_back(kComma);
      rig.pool().zero(slot);
      feeds.push_back({slot, digits});
    }
    std::vector<Tokens> said(10);
    for (size_t step = 0; step <= length; step++) {
      const auto logits = rig.step(feeds);
      for (size_t slot = 0; slot < 10; slot++) {
        said[slot].push_back(support::argmax(logits[slot]));
        feeds[slot].tokens = {said[slot].back()};
      }
    }
    for (size_t slot = 0; slot < 10; slot++) right += said[slot] == answers[slot] ? 1 : 0;
  }
  EXPECT_GE(right, wanted_right) << "of 600";
}

INSTANTIATE_TEST_SUITE_P(Files, GpuReverse,
                         testing::Values(std::pair{"reverse-v64-f16.pth", 600},
                                         std::pair{"reverse-v64-bf16.pth", 595},
                                         std::pair{"reverse-v64-f32.safetensors", 600}));

class GpuGolden : public GpuTest, public testing::WithParamInterface<const char*> {};

// 16-bit products: the likeliest token where it leads by more than 0.1, and the size of the error.
TEST_P(GpuGolden, LogitsAgree) {
  const Json golden = support::read_golden(GetParam());
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  auto checkpoint = support::golden_checkpoint(golden);
  ASSERT_NE(checkpoint, nullptr);
  const auto initial = support::time_states(*checkpoint, golden["config"]["n_layer"]);
  const bool tuned = golden.contains("time_state") && !golden["time_state"].is_null();
  ModelRig rig(std::move(checkpoint), gpu(), 2);
  ASSERT_TRUE(rig.loaded());
  for (const Json& one : golden["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    rig.pool().zero(1);
    if (tuned) {
      ASSERT_TRUE(rig.pool().set_initial(1, initial).ok());
    }
    const std::vector<float> got = rig.feed(1, one["tokens"].get<Tokens>());
    const auto want = one["logits"].get<std::vector<double>>();
    EXPECT_LT(support::relative_error(got, want), 0.02);
    auto sorted = want;
    std::sort(sorted.rbegin(), sorted.rend());
    if (sorted[0] - sorted[1] <= 0.1) continue;
    EXPECT_EQ(want[static_cast<size_t>(support::argmax(got))], sorted[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, GpuGolden,
                         testing::Values("tiny-rwkv7", "tiny-rwkv7-pth", "tiny-rwkv6", "synth-rwkv7",
                                         "synth-rwkv7-state", "synth-rwkv7a", "synth-rwkv6",
                                         "synth-rwkv6-state"));

}  // namespace
}  // namespace fulmar
