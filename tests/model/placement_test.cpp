// Which layers lie where, by sizes, speeds and memory: pure.
#include "model/placement.h"

#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"
#include "files/identify.h"
#include "files/synthetic.h"

namespace fulmar {
namespace {

using Ranges = std::vector<LayerRange>;

PartSizes sizes(size_t layers, double head) { return {head, std::vector<double>(layers, 1.0)}; }

StageRoom room(size_t layers, double speed = 1, size_t free = 1000) {
  StageRoom one{.speed = speed, .free = free, .fixed = 10, .embedding = 5, .head = 7};
  one.layers.assign(layers, 10);
  return one;
}

TEST(SplitLayers, AlikeDevicesShareEqually) {
  EXPECT_EQ(*split_layers(sizes(12, 0), std::vector(3, room(12))), (Ranges{{0, 4}, {4, 8}, {8, 12}}));
  EXPECT_EQ(*split_layers(sizes(5, 0), std::vector(1, room(5))), (Ranges{{0, 5}}));
}

TEST(SplitLayers, TheHeadCountsAsTheLayersItTakesAsLongAs) {
  EXPECT_EQ(*split_layers(sizes(12, 2), std::vector(2, room(12))), (Ranges{{0, 7}, {7, 12}}));
}

TEST(SplitLayers, AFasterDeviceHasMore) {
  const std::vector<StageRoom> devices{room(12, 3), room(12, 1)};
  EXPECT_EQ(*split_layers(sizes(12, 0), devices), (Ranges{{0, 9}, {9, 12}}));
}

TEST(SplitLayers, NoDeviceHasMoreThanItsMemoryHolds) {
  // 10 fixed, 5 for the embedding, 10 for each layer: three.
  const std::vector<StageRoom> devices{room(12, 1, 45), room(12)};
  EXPECT_EQ(*split_layers(sizes(12, 0), devices), (Ranges{{0, 3}, {3, 12}}));
  // 10 fixed, 7 for the head: two.
  const std::vector<StageRoom> last{room(12), room(12, 1, 46)};
  EXPECT_EQ(*split_layers(sizes(12, 0), last), (Ranges{{0, 10}, {10, 12}}));
}

TEST(SplitLayers, WhereNothingFitsTheSplitIsByTime) {
  const std::vector<StageRoom> devices(2, room(12, 1, 20));
  EXPECT_EQ(*split_layers(sizes(12, 0), devices), (Ranges{{0, 6}, {6, 12}}));
}

TEST(SplitLayers, EachDeviceHasALayer) {
  EXPECT_EQ(*split_layers(sizes(2, 50), std::vector(2, room(2))), (Ranges{{0, 1}, {1, 2}}));
  const auto refused = split_layers(sizes(2, 0), std::vector(3, room(2)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().text,
            "a model of 2 layers cannot be spread over 3 devices; wanted at least one layer for each");
}

TEST(RangesOf, CountsAddUpToAllLayers) {
  const auto ranges = [](std::vector<int64_t> counts) { return ranges_of(counts, 2, 32); };
  EXPECT_EQ(*ranges({10, 22}), (Ranges{{0, 10}, {10, 32}}));
  const std::vector<std::vector<int64_t>> wrongs{{10, 21}, {10, 23}, {32}, {0, 32}, {10, 10, 12}, {40, -8}};
  for (const std::vector<int64_t>& wrong : wrongs) {
    const auto refused = ranges(wrong);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().text.find("wanted 2 numbers of at least 1, 32 together"), std::string::npos)
        << refused.error().text;
  }
}

TEST(PlaceLayers, StagesTogetherPlanWhatTheWholeDoes) {
  SyntheticSpec spec{.version = 7, .n_layer = 4, .n_head = 2, .head_size = 64, .vocab = 256};
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 16;
  spec.dtype = DType::f16;
  const auto checkpoint = synthetic_checkpoint(spec);
  const std::unique_ptr<Ops> one = make_cpu_ops({.threads = 1}), two = make_cpu_ops({.threads = 1});
  Ops* const devices[] = {one.get(), two.get()};
  const LoadOptions options{.max_rows = 64, .slots = 8};
  const ModelConfig config = identify(*checkpoint).value();
  const auto placed = place_layers(*checkpoint, config, devices, {}, options);
  ASSERT_TRUE(placed.ok()) << placed.error().text;
  ASSERT_EQ(placed->size(), 2u);
  EXPECT_EQ(placed->front().layers.first, 0);
  EXPECT_EQ(placed->front().layers.last, placed->back().layers.first);
  EXPECT_EQ(placed->back().layers.last, 4);

  const auto stages = plan_stages(*checkpoint, config, *placed, options);
  const auto whole = plan_memory(*checkpoint, config, *one, options);
  ASSERT_TRUE(stages.ok() && whole.ok());
  EXPECT_EQ(stages->front().memory.weights + stages->back().memory.weights, whole->weights);
  EXPECT_EQ(stages->front().memory.per_slot + stages->back().memory.per_slot, whole->per_slot);
}

StagePlan stage(std::optional<int> gpu, LayerRange layers, size_t weights, size_t free) {
  return {.device = gpu ? "cuda:" + std::to_string(*gpu) : "cpu",
          .gpu = gpu,
          .layers = layers,
          .memory = {.weights = weights << 20, .workspace = 0, .per_slot = size_t{1} << 20, .slots = 4},
          .free = free << 20};
}

TEST(CheckMemory, EveryDeviceIsCountedOnce) {
  const std::vector<StagePlan> apart{stage(0, {0, 3}, 90, 100), stage(1, {3, 9}, 90, 100)};
  EXPECT_TRUE(check_memory(apart).ok());
  const std::vector<StagePlan> twice{stage(0, {0, 3}, 90, 100), stage(0, {3, 9}, 90, 100)};
  EXPECT_FALSE(check_memory(twice).ok()) << "both on one GPU";
}

TEST(CheckMemory, TheErrorSaysWhoNeedsWhat) {
  const std::vector<StagePlan> stages{stage(0, {0, 3}, 90, 100), stage(1, {3, 9}, 190, 100)};
  const Status refused = check_memory(stages);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::resource);
  EXPECT_EQ(
      refused.error().text,
      "the model needs 94 MiB for layers 0 to 2 (90 MiB weights, 0 MiB workspace, 4 states of 1024 KiB); "
      "cuda:0 has 100 MiB free; 194 MiB for layers 3 to 8 (190 MiB weights, 0 MiB workspace, 4 states of "
      "1024 KiB); cuda:1 has 100 MiB free");
}

}  // namespace
}  // namespace fulmar
