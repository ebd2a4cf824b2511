// How far half states carry a model away from f32 states over thousands of decoded tokens, the same tokens
// for both: rounding to nearest again and again could add up. FULMAR_DRIFT_TOKENS: so many in place of 1,024.
// With FULMAR_LARGE_MODELS also a synthetic model of released size.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "gpu/gpu_device.h"
#include "support/folders.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using support::Feed;
using support::ModelRig;

struct DriftModel {
  const char* name;
  const char* file;    // or
  const char* preset;  // null: `file`
  int64_t sequences = 4;
  int64_t compared_every = 1;  // tokens
};

int64_t tokens_wanted() {
  const char* text = std::getenv("FULMAR_DRIFT_TOKENS");
  return text != nullptr ? std::atoll(text) : under_racecheck() ? 16 : 1024;
}

class GpuStateDrift : public GpuTest, public testing::WithParamInterface<DriftModel> {
 protected:
  // Why the model is not here; empty: it is.
  std::string missing() const {
    if (GetParam().preset == nullptr) {
      return std::filesystem::exists(path()) ? "" : "not here: " + path().string();
    }
    return std::getenv("FULMAR_LARGE_MODELS") == nullptr ? "set FULMAR_LARGE_MODELS for this one" : "";
  }
  std::unique_ptr<ModelRig> rig(bool half, int64_t every) {
    auto opened = open_test_gpu({.half_state = half, .state_writes = {.every = every}});
    std::unique_ptr<Checkpoint> model = checkpoint();
    if (!opened.ok() || model == nullptr) return nullptr;
    devices_.push_back(std::move(opened).value());
    return std::make_unique<ModelRig>(std::move(model), *devices_.back(), GetParam().sequences);
  }

 private:
  static std::filesystem::path path() { return support::source_folder() / GetParam().file; }
  static std::unique_ptr<Checkpoint> checkpoint() {
    if (GetParam().preset != nullptr) return synthetic_checkpoint(*synthetic_preset(GetParam().preset));
    auto opened = open_checkpoint(path());
    return opened.ok() ? std::move(opened).value() : nullptr;
  }

  std::vector<std::unique_ptr<Ops>> devices_;
};

TEST_P(GpuStateDrift, HalfStatesStayCloseOverThousandsOfTokens) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const auto wide = rig(false, 1);
  ASSERT_NE(wide, nullptr);
  const int64_t deferrals[] = {1, 4, 16};
  std::vector<std::unique_ptr<ModelRig>> halves;
  for (const int64_t every : deferrals) halves.push_back(rig(true, every));
  const auto vocab = static_cast<uint32_t>(wide->model().config().vocab);
  std::mt19937 random(5);
  std::vector<Feed> feeds;
  for (int64_t slot = 0; slot < GetParam().sequences; slot++) {
    feeds.push_back({slot, {static_cast<int32_t>(random() % vocab)}});
  }
  const int64_t wanted = tokens_wanted();
  std::vector<double> sums(std::size(deferrals), 0.0);
  int64_t begin = 0, compared = 0;
  for (int64_t token = 0, end = 64; token < wanted; token++) {
    const auto want = wide->step(feeds);
    const bool compares = token % GetParam().compared_every == 0;
    compared += compares ? 1 : 0;
    for (size_t i = 0; i < halves.size(); i++) {
      const auto got = halves[i]->step(feeds);
      for (size_t row = 0; compares && row < want.size(); row++) {
        const double error = support::relative_error(got[row], want[row]);
        sums[i] += error * error / static_cast<double>(want.size());
      }
    }
    // Greedy, with a random token now and then so that no sequence runs in a circle.
    for (size_t row = 0; row < want.size(); row++) {
      feeds[row].tokens[0] =
          random() % 16 == 0 ? static_cast<int32_t>(random() % vocab) : support::argmax(want[row]);
    }
    if (token + 1 < end && token + 1 < wanted) continue;
    std::printf("%s tokens %6lld to %6lld: half states off by", GetParam().name,
                static_cast<long long>(begin), static_cast<long long>(token + 1));
    for (size_t i = 0; i < halves.size(); i++) {
      const double error = std::sqrt(sums[i] / static_cast<double>(compared));
      std::printf(" %.5f (M %lld)", error, static_cast<long long>(deferrals[i]));
      EXPECT_LT(error, 0.05) << "M " << deferrals[i] << ", up to token " << token + 1;
      sums[i] = 0;
    }
    std::printf("\n");
    begin = token + 1, compared = 0;
    end *= 2;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GpuStateDrift,
    testing::Values(DriftModel{"demo", "models/fulmar-demo.safetensors", nullptr},
                    DriftModel{"reverse", "../shared/models/rwkv7-reverse/reverse-v64-f16.pth", nullptr},
                    DriftModel{"tiny6", "../shared/models/rwkv6-tiny-1m/rwkv6-tiny-1m-f32.safetensors",
                               nullptr},
                    DriftModel{"synthetic1b5", nullptr, "rwkv7-1.5b", 2, 8}),
    [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace fulmar
