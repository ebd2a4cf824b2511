// Loading: what is refused and how it is said, memory plans, fingerprints, state slots.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "cpu/cpu_ops.h"
#include "files/identify.h"
#include "files/quantised.h"
#include "files/synthetic.h"
#include "model/nonfinite.h"
#include "support/model_rig.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

SyntheticSpec tiny(DType dtype = DType::f32) {
  SyntheticSpec spec;
  spec.version = 7;
  spec.n_layer = 2;
  spec.n_head = 2;
  spec.head_size = 16;
  spec.vocab = 40;
  spec.n_ffn = 64;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 8;
  spec.dtype = dtype;
  return spec;
}

// The same model with some tensors changed or (false) left out.
std::unique_ptr<Checkpoint> edited(const SyntheticSpec& spec,
                                   const std::function<bool(StoredTensor&)>& edit) {
  std::shared_ptr<Checkpoint> source = synthetic_checkpoint(spec);
  CheckpointParts parts;
  parts.owners.push_back(source);
  for (StoredTensor tensor : source->tensors()) {
    if (edit(tensor)) parts.tensors.push_back(std::move(tensor));
  }
  return make_checkpoint(std::move(parts));
}

class Load : public testing::Test {
 protected:
  Result<std::unique_ptr<Model>> load(std::unique_ptr<Checkpoint> checkpoint,
                                      const LoadOptions& options = {}) {
    return Model::load(std::move(checkpoint), *ops_, options);
  }

  std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
};

TEST_F(Load, MissingTensorIsNamed) {
  const auto model = load(edited(tiny(), [](StoredTensor& t) { return t.name != "blocks.1.att.w2"; }));
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().text.find("blocks.1.att.w2"), std::string::npos) << model.error().text;
}

TEST_F(Load, MisshapenTensorIsNamedWithBothShapes) {
  const auto model = load(edited(tiny(), [](StoredTensor& t) {
    if (t.name == "blocks.1.ffn.value.weight") t.shape[1] = 32;
    return true;
  }));
  ASSERT_FALSE(model.ok());
  const std::string& text = model.error().text;
  EXPECT_NE(text.find("blocks.1.ffn.value.weight"), std::string::npos) << text;
  EXPECT_NE(text.find("[32, 32]"), std::string::npos) << text;
  EXPECT_NE(text.find("[32, 64]"), std::string::npos) << text;
}

TEST_F(Load, NonfiniteWeightsAreRefusedUnlessAllowed) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const float bad : {NAN, -INFINITY}) {
      std::vector<std::byte> spoiled;
      const auto spoil = [&](StoredTensor& t) {
        if (t.name != "blocks.1.att.key.weight") return true;
        spoiled.assign(t.data, t.data + t.bytes());
        from_f32(std::span(&bad, 1), dtype, spoiled.data() + 700 * size_of(dtype));
        t.data = spoiled.data();
        return true;
      };
      const auto refused = load(edited(tiny(dtype), spoil));
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().text.find("blocks.1.att.key.weight"), std::string::npos);
      EXPECT_NE(refused.error().text.find(std::isnan(bad) ? "NaN" : "infinity"), std::string::npos);
      EXPECT_NE(refused.error().text.find("700"), std::string::npos) << refused.error().text;
      EXPECT_TRUE(load(edited(tiny(dtype), spoil), {.allow_nonfinite = true}).ok());
    }
  }
  EXPECT_FALSE(first_nonfinite(*synthetic_checkpoint(tiny())).has_value());
}

TEST_F(Load, RowsOutOfRangeAreRefused) {
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    const auto model = load(synthetic_checkpoint(tiny()), {.max_rows = rows});
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().kind, ErrorKind::invalid);
  }
}

TEST_F(Load, ProgressGoesFromZeroToOne) {
  std::vector<double> seen;
  ASSERT_TRUE(load(synthetic_checkpoint(tiny()), {.progress = [&](double f) { seen.push_back(f); }}).ok());
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen.front(), 0);
  EXPECT_EQ(seen.back(), 1);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_F(Load, FingerprintTellsKindsOfWeightsAndTheirScalesApart) {
  SyntheticSpec wide = tiny();
  wide.head_size = 32, wide.n_ffn = 128;
  const auto fingerprint = [&](const char* kind, float scale = 1) {
    auto made = quantise_checkpoint(synthetic_checkpoint(wide), quantise_all(*quantisation_named(kind)));
    if (scale != 1) {
      for (const StoredTensor& tensor : (*made)->tensors()) {
        for (int64_t i = 0; tensor.scales != nullptr && i < tensor.count() / tensor.group; i++) {
          const_cast<float*>(tensor.scales)[i] *= scale;
        }
      }
    }
    return load(std::move(*made)).value()->fingerprint();
  };
  const std::string plain = load(synthetic_checkpoint(wide)).value()->fingerprint();
  std::set<std::string> all{plain};
  for (const char* kind : {"q8_0", "q4_0", "nf4", "int8", "fp8"}) {
    EXPECT_EQ(fingerprint(kind), fingerprint(kind)) << kind;
    EXPECT_TRUE(all.insert(fingerprint(kind)).second) << kind;
  }
  EXPECT_NE(fingerprint("int8", 1.5f), fingerprint("int8"));
}

TEST_F(Load, FingerprintNamesTheWeightsNotTheFile) {
  const auto fingerprint = [&](const SyntheticSpec& spec) {
    return load(synthetic_checkpoint(spec)).value()->fingerprint();
  };
  EXPECT_EQ(fingerprint(tiny()), fingerprint(tiny()));
  SyntheticSpec other = tiny();
  other.seed = 1;
  EXPECT_NE(fingerprint(tiny()), fingerprint(other));

  // bf16 numbers held as f32 are the same weights.
  const std::shared_ptr<Checkpoint> narrow = synthetic_checkpoint(tiny(DType::bf16));
  CheckpointParts parts;
  for (const StoredTensor& tensor : narrow->tensors()) {
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, *values);
    const auto* data = reinterpret_cast<const std::byte*>(values->data());
    parts.tensors.push_back({tensor.name, DType::f32, tensor.shape, row_major_strides(tensor.shape), data});
    parts.owners.push_back(values);
  }
  EXPECT_EQ(load(make_checkpoint(std::move(parts))).value()->fingerprint(), fingerprint(tiny(DType::bf16)));
}

TEST_F(Load, PlanCountsOnlyWhatIsCopied) {
  const std::unique_ptr<Checkpoint> checkpoint = synthetic_checkpoint(tiny(DType::bf16));
  const Result<ModelConfig> config = identify(*checkpoint);
  ASSERT_TRUE(config.ok());
  const MemoryPlan plan = plan_memory(*checkpoint, *config, *ops_, {.max_rows = 64}).value();
  size_t all = 0;
  for (const StoredTensor& tensor : checkpoint->tensors()) all += tensor.bytes();
  EXPECT_GT(plan.weights, 0u);
  EXPECT_LT(plan.weights, all);
  EXPECT_EQ(plan.per_slot, state_layout_of(*config, *ops_).slot_bytes());
  const MemoryPlan wide = plan_memory(*checkpoint, *config, *ops_, {.max_rows = 128}).value();
  EXPECT_GT(wide.workspace, plan.workspace);
}

TEST_F(Load, TooManyStatesAreRefusedBeforeAnythingIsAllocated) {
  const auto refused = load(synthetic_checkpoint(tiny()), {.slots = int64_t{1} << 40});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::resource);
  for (const char* part : {"MiB weights", "MiB workspace", "1099511627776 states of", "MiB free"}) {
    EXPECT_NE(refused.error().text.find(part), std::string::npos) << refused.error().text;
  }
}

TEST(MemoryPlan, StatesFillWhatTheModelLeaves) {
  const MemoryPlan plan{.weights = 1000, .workspace = 200, .per_slot = 30, .slots = 0};
  EXPECT_EQ(most_slots(plan, 1199), -1);
  EXPECT_EQ(most_slots(plan, 1200), 0);
  EXPECT_EQ(most_slots(plan, 1299), 3);
}

TEST_F(Load, StatePoolChecksWhatIsWritten) {
  const auto model = load(synthetic_checkpoint(tiny()));
  ASSERT_TRUE(model.ok());
  const StateLayout layout = (*model)->state_layout();
  EXPECT_FALSE(StatePool::make(*ops_, layout, 0).ok());
  EXPECT_FALSE(StatePool::make(*ops_, layout, int64_t{1} << 62).ok());
  Result<StatePool> pool = StatePool::make(*ops_, layout, 2);
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->slots(), 2);
  const std::vector<std::byte> before = pool->read(0);
  EXPECT_EQ(before, std::vector<std::byte>(layout.slot_bytes()));
  EXPECT_FALSE(pool->set(0, std::vector<std::byte>(7)).ok());
  std::vector<std::vector<float>> initial(2, std::vector<float>(2 * 16 * 16, 0.5f));
  EXPECT_FALSE(pool->set_initial(0, std::span(initial).first(1)).ok());
  initial[1].pop_back();
  EXPECT_FALSE(pool->set_initial(0, initial).ok());
  EXPECT_EQ(pool->read(0), before);
  initial[1].push_back(0.25f);
  ASSERT_TRUE(pool->set_initial(1, initial).ok());
  EXPECT_EQ(pool->read(0), before);
  float last = 0;
  std::memcpy(
      &last,
      pool->read(1).data() + layout.offset(1, kWkv) + layout.field_bytes(layout.fields[kWkv]) - sizeof(float),
      sizeof(last));
  EXPECT_EQ(last, 0.25f);
}

}  // namespace
}  // namespace fulmar
