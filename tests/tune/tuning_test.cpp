// Runs of training: equal runs give equal bits, whether in one piece or taken up from a checkpoint; what they
// write is what servers read; a run that leaves the numbers stops.
#include "tune/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "adapters/reading.h"
#include "base/write_file.h"
#include "files/file_builders.h"
#include "files/synthetic.h"
#include "files/time_state.h"

namespace fulmar {
namespace {

using testing::HasSubstr;

constexpr TuneMethod kMethods[] = {TuneMethod::state, TuneMethod::lora, TuneMethod::miss};

ModelParameters<float> small_model(int version = 7) {
  SyntheticSpec spec{.version = version, .n_layer = 2, .n_head = 2, .head_size = 4, .vocab = 11, .n_ffn = 16};
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 3;
  return std::move(load_parameters<float>(*synthetic_checkpoint(spec))).value();
}

Samples small_samples() {
  Samples samples;
  for (int32_t s = 0; s < 7; s++) {
    TuneSample& sample = samples.samples.emplace_back();
    for (int32_t t = 0; t <= s * 3; t++) {
      sample.tokens.push_back((s + t * t) % 11);
      sample.targets.push_back(t % 3 == 1 ? -1 : (s + t) % 11);
    }
  }
  return samples;
}

TuneSettings small_settings(TuneMethod method) {
  TuneSettings settings{.method = method, .rank = 2, .alpha = 3, .batch = 3, .steps = 8};
  settings.rate = {Schedule::geometric, 0.1, 0.01, 2};
  settings.base = "base", settings.data = "data";
  return settings;
}

// Steps to the end; returns the losses.
std::vector<double> run_on(Tuning& tuning) {
  std::vector<double> losses;
  while (!tuning.finished()) {
    const Result<TuneStep> step = tuning.step();
    EXPECT_TRUE(step.ok()) << step.error().text;
    if (!step.ok()) break;
    losses.push_back(step->loss);
  }
  return losses;
}

class TuningTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ = test::TempFile("", ".run").path().string() + "s";
  const Samples samples_ = small_samples();
};

TEST_F(TuningTest, IsTakenUpBitForBit) {
  for (const TuneMethod method : kMethods) {
    for (const int version : kVersions) {
      std::filesystem::remove_all(folder_);
      ModelParameters<float> whole_model = small_model(version), part_model = small_model(version),
                             rest_model = small_model(version);
      Tuning whole(whole_model, samples_, small_settings(method)),
          part(part_model, samples_, small_settings(method)),
          rest(rest_model, samples_, small_settings(method));
      const std::vector<double> losses = run_on(whole);
      EXPECT_LT(losses.back(), losses.front());
      for (int i = 0; i < 4; i++) {
        if (i >= 2) {
          ASSERT_TRUE(part.save(checkpoint_folder(folder_, part.done())).ok());
        }
        ASSERT_TRUE(part.step().ok());
      }
      const auto last = last_checkpoint(folder_);
      ASSERT_TRUE(last.ok());
      EXPECT_EQ(last->filename(), "checkpoint-3");
      const Status resumed = rest.resume(*last);
      ASSERT_TRUE(resumed.ok()) << resumed.error().text;
      EXPECT_EQ(rest.done(), 3);
      const std::vector<double> remaining = run_on(rest);
      EXPECT_TRUE(std::equal(losses.begin() + 3, losses.end(), remaining.begin(), remaining.end()));
      for (const auto& [name, parameter] : whole_model.all) {
        EXPECT_EQ(parameter.value.values, rest_model.find(name)->value.values) << name;
      }
    }
  }
}

TEST_F(TuningTest, IsNotTakenUpWithAnotherSetting) {
  ModelParameters<float> model = small_model(), other = small_model();
  Tuning first(model, samples_, small_settings(TuneMethod::state));
  ASSERT_TRUE(first.step().ok());
  const auto place = checkpoint_folder(folder_, 1);
  ASSERT_TRUE(first.save(place).ok());
  TuneSettings settings = small_settings(TuneMethod::state);
  settings.batch = 4;
  EXPECT_THAT(Tuning(other, samples_, settings).resume(place).error().text,
              HasSubstr("the saved run has batch '3', this one '4'"));
  settings = small_settings(TuneMethod::state);
  settings.data = "others";
  EXPECT_THAT(Tuning(other, samples_, settings).resume(place).error().text,
              HasSubstr("data 'data', this one 'others'"));
  ASSERT_TRUE(write_file(place / "tensors.pth", "damaged").ok());
  EXPECT_FALSE(Tuning(other, samples_, small_settings(TuneMethod::state)).resume(place).ok());
  std::filesystem::remove(place / "checkpoint.json");
  EXPECT_THAT(last_checkpoint(folder_).error().text, HasSubstr("holds no checkpoint"));
}

TEST_F(TuningTest, WritesAStateThatServersRead) {
  for (const int version : kVersions) {
    ModelParameters<float> model = small_model(version);
    Tuning tuning(model, samples_, small_settings(TuneMethod::state));
    run_on(tuning);
    const auto path = tuning.write_result(folder_, {{"template", "world"}});
    ASSERT_TRUE(path.ok()) << path.error().text;
    const Result<TimeState> state = read_time_state(*path, model.config);
    ASSERT_TRUE(state.ok()) << state.error().text;
    EXPECT_EQ(state->at(1), model.find("blocks.1.att.time_state")->value.values);
  }
}

TEST_F(TuningTest, WritesAdaptersThatServersRead) {
  for (const TuneMethod method : {TuneMethod::lora, TuneMethod::miss}) {
    ModelParameters<float> model = small_model();
    Tuning tuning(model, samples_, small_settings(method));
    run_on(tuning);
    const auto path = tuning.write_result(folder_, {{"template", "world"}});
    ASSERT_TRUE(path.ok()) << path.error().text;
    const Result<Adapter> adapter = read_adapter(*path);
    ASSERT_TRUE(adapter.ok()) << adapter.error().text;
    EXPECT_EQ(adapter->deltas.size(), adapted_matrices_of(model.config).size());
    const bool lora = method == TuneMethod::lora;
    for (const Delta& delta : adapter->deltas) {
      EXPECT_EQ(delta.kind, lora ? DeltaKind::low_rank : DeltaKind::miss);
      EXPECT_EQ(delta.rank(), 2);
      EXPECT_EQ(delta.scale, lora ? 1.5 : 1.0);
    }
  }
}

TEST_F(TuningTest, StopsWhereNumbersAreNotFinite) {
  ModelParameters<float> model = small_model();
  Tuning tuning(model, samples_, small_settings(TuneMethod::state));
  ASSERT_TRUE(tuning.step().ok());
  const std::vector<float> before = model.find("blocks.0.att.time_state")->value.values;
  model.find("head.weight")->value.values[0] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(tuning.step().error().text, HasSubstr("step 2 is not finite"));
  EXPECT_EQ(tuning.done(), 1);
  EXPECT_EQ(model.find("blocks.0.att.time_state")->value.values, before);
}

TEST(TuningMemory, GrowsWithEverythingThatIsChosen) {
  const ModelConfig config = small_model().config;
  const TuneSettings settings = small_settings(TuneMethod::lora);
  const TuneSizes sizes{10000, 30};
  const int64_t bytes = tuning_bytes(config, settings, sizes);
  EXPECT_GT(tuning_bytes(config, settings, {20000, 30}), bytes);
  EXPECT_GT(tuning_bytes(config, settings, {10000, 60}), bytes);
  TuneSettings more = settings;
  more.rank = 20;
  EXPECT_GT(tuning_bytes(config, more, sizes), bytes);
  EXPECT_EQ(largest_batch(small_samples(), 2), 19 + 16);
  EXPECT_EQ(largest_batch(small_samples(), 100), 1 + 4 + 7 + 10 + 13 + 16 + 19);
}

}  // namespace
}  // namespace fulmar
