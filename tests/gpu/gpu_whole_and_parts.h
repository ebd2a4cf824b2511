// One model on one GPU and over two, or over two queues of one where there is no other: what several compute
// has to be what one does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu_device.h"
#include "support/model_rig.h"

namespace fulmar {

inline bool several_gpus() { return list_gpus().size() > 1; }

// Four layers of f16.
inline SyntheticSpec four_layers(int version, int64_t n_head, int64_t vocab) {
  SyntheticSpec spec{.version = version, .n_layer = 4, .n_head = n_head, .head_size = 64, .vocab = vocab};
  spec.n_ffn = n_head * 256;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = spec.rank_decay = 32;
  spec.dtype = DType::f16;
  return spec;
}

// Below 256, the same for equal seeds.
inline std::vector<int32_t> mixed_tokens(size_t count, int32_t seed) {
  std::vector<int32_t> list(count);
  for (size_t i = 0; i < count; i++) list[i] = (static_cast<int32_t>(i) * 37 + seed * 11) % 256;
  return list;
}

class GpuWholeAndParts : public GpuTest {
 protected:
  using Placing = std::vector<Placed> (*)(std::span<const std::unique_ptr<Ops>> devices);

  // `place` gives each of two devices its part.
  void load(const SyntheticSpec& spec, const DeviceOptions& options, Placing place, int64_t slots = 44) {
    for (const int index : {0, 0, several_gpus() ? 1 : 0}) {
      DeviceOptions of_one = options;
      of_one.index = index;
      auto opened = open_test_gpu(of_one);
      ASSERT_TRUE(opened.ok()) << opened.error().text;
      devices_.push_back(std::move(opened).value());
    }
    whole_ = std::make_unique<support::ModelRig>(synthetic_checkpoint(spec), *devices_[0], slots);
    parts_ = std::make_unique<support::ModelRig>(synthetic_checkpoint(spec),
                                                 place(std::span(devices_).subspan(1)), slots);
    ASSERT_TRUE(whole_->loaded() && parts_->loaded());
  }

  // Relative errors of the logits of one step.
  void expect_step_agrees(const std::vector<support::Feed>& feeds, double tolerance,
                          const std::string& what) {
    const auto got = parts_->step(feeds), want = whole_->step(feeds);
    for (size_t i = 0; i < feeds.size(); i++) {
      ASSERT_LT(support::relative_error(got[i], want[i]), tolerance) << what;
    }
  }

  // Often enough that steps are replayed from graphs. `prompts`: lengths of those that share a step.
  void expect_steps_agree(std::pair<size_t, size_t> prompts, double tolerance) {
    for (int32_t round = 0; round < 4; round++) {
      const std::string of_round = ", round " + std::to_string(round);
      for (const int64_t rows : {1, 4, 12, 40}) {
        std::vector<support::Feed> feeds;
        for (int64_t slot = 0; slot < rows; slot++) {
          feeds.push_back({slot, mixed_tokens(1, static_cast<int32_t>(slot) + round)});
        }
        expect_step_agrees(feeds, tolerance, std::to_string(rows) + " rows" + of_round);
      }
      expect_step_agrees(
          {{41, mixed_tokens(prompts.first, round)}, {42, mixed_tokens(prompts.second, round)}, {0, {3}}},
          tolerance, "mixture" + of_round);
    }
  }

  void expect_states_go_on(double tolerance) {
    whole_->feed(0, mixed_tokens(40, 1));
    parts_->pool().write(1, whole_->pool().read(0));
    EXPECT_TRUE(parts_->pool().read(1) == whole_->pool().read(0)) << "the same bytes";
    parts_->pool().copy(1, 2);
    whole_->pool().copy(0, 3);
    const auto want = whole_->feed(3, mixed_tokens(7, 2));
    EXPECT_LT(support::relative_error(parts_->feed(2, mixed_tokens(7, 2)), want), tolerance);
    whole_->pool().write(4, parts_->pool().read(1));
    EXPECT_EQ(whole_->feed(4, mixed_tokens(7, 2)), want) << "there and back";
  }

  std::vector<std::unique_ptr<Ops>> devices_;
  std::unique_ptr<support::ModelRig> whole_, parts_;
};

}  // namespace fulmar
