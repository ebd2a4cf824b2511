// Whole models: GPU against CPU in one process, and the invariants of chunking, packing, padding and
// replaying.
#include <algorithm>
#include <cmath>

#include "cpu/cpu_ops.h"
#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "rwkv7/islands.h"
#include "support/model_rig.h"
#include "support/ops_rig.h"

namespace fulmar {
namespace {

using support::Feed;
using support::ModelRig;
using support::relative_error;

constexpr double kLogitError = 1e-2;  // root mean square, relative to the logits' deviation

SyntheticSpec spec7() {
  SyntheticSpec spec;
  spec.n_layer = 3;
  spec.n_head = 4;
  spec.head_size = 64;
  spec.vocab = 256;
  spec.n_ffn = 1024;
  spec.rank_w = spec.rank_a = 64;
  spec.rank_v = 32;
  spec.rank_g = 96;
  spec.dtype = DType::f16;
  return spec;
}

SyntheticSpec spec6() {
  SyntheticSpec spec;
  spec.version = 6;
  spec.n_layer = 3;
  spec.n_head = 4;
  spec.head_size = 64;
  spec.vocab = 256;
  spec.rank_mix = 32;
  spec.rank_decay = 64;
  spec.dtype = DType::f16;
  return spec;
}

std::vector<int32_t> tokens(size_t count, uint32_t seed) { return support::random_tokens(count, seed, 256); }

class GpuModel : public GpuTest, public testing::WithParamInterface<int> {
 protected:
  SyntheticSpec spec() const { return GetParam() == 7 ? spec7() : spec6(); }
};

TEST_P(GpuModel, AgreesWithTheCpu) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 2});
  ModelRig want(synthetic_checkpoint(spec()), *cpu, 8), got(synthetic_checkpoint(spec()), gpu(), 8);
  ASSERT_TRUE(want.loaded() && got.loaded());
  const auto lengths =
      under_racecheck() ? std::vector<size_t>{1, 33} : std::vector<size_t>{1, 15, 16, 17, 33, 300};
  const int32_t tokens_after = under_racecheck() ? 1 : 4;
  for (const size_t length : lengths) {
    want.pool().zero(2);
    got.pool().zero(2);
    const auto prompt = tokens(length, 3);
    EXPECT_LT(relative_error(got.feed(2, prompt), want.feed(2, prompt)), kLogitError) << length << " tokens";
    for (int32_t next = 0; next < tokens_after; next++) {
      EXPECT_LT(relative_error(got.feed(2, {next}), want.feed(2, {next})), kLogitError) << "after " << length;
    }
  }
}

TEST_P(GpuModel, RaggedStepsAgreeWithSequencesAlone) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 2});
  ModelRig want(synthetic_checkpoint(spec()), *cpu, 6), got(synthetic_checkpoint(spec()), gpu(), 6);
  ASSERT_TRUE(want.loaded() && got.loaded());
  const std::vector<size_t> lengths = {1, 40, 2, 17, 1, 129};
  std::vector<Feed> feeds;
  for (size_t s = 0; s < lengths.size(); s++) {
    feeds.push_back({static_cast<int64_t>(5 - s), tokens(lengths[s], static_cast<uint32_t>(s))});
  }
  const int rounds = under_racecheck() ? 1 : 2;
  for (int round = 0; round < rounds; round++) {
    const auto packed = got.step(feeds);
    for (size_t s = 0; s < feeds.size(); s++) {
      const auto alone = want.feed(feeds[s].slot, feeds[s].tokens);
      EXPECT_LT(relative_error(packed[s], alone), kLogitError) << "sequence " << s << " round " << round;
    }
  }
}

// The rows of one step, each against the same row on the CPU: their root mean square, and the worst.
struct RowErrors {
  double pooled = 0, worst = 0;
};
RowErrors row_errors(const std::vector<std::vector<float>>& got,
                     const std::vector<std::vector<float>>& want) {
  RowErrors errors;
  for (size_t row = 0; row < got.size(); row++) {
    const double error = relative_error(got[row], want[row]);
    errors.pooled += error * error / static_cast<double>(got.size());
    errors.worst = std::max(errors.worst, error);
  }
  errors.pooled = std::sqrt(errors.pooled);
  return errors;
}

TEST_P(GpuModel, DecodeStepsOfAllSizesAgreeAndRepeatTheirBits) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops({.threads = 2});
  constexpr int64_t kSlots = 70;
  ModelRig want(synthetic_checkpoint(spec()), *cpu, kSlots), got(synthetic_checkpoint(spec()), gpu(), kSlots);
  ASSERT_TRUE(want.loaded() && got.loaded());
  const auto sizes = under_racecheck() ? std::vector<int64_t>{2, 33}
                                       : std::vector<int64_t>{1, 2, 7, 9, 16, 17, 31, 33, 64, 70};
  for (const int64_t rows : sizes) {
    std::vector<Feed> feeds;
    for (int64_t row = 0; row < rows; row++) {
      want.pool().zero(row);
      got.pool().zero(row);
      feeds.push_back({row, {static_cast<int32_t>((row * 37 + rows) % 256)}});
    }
    // As it is, recorded, replayed. The first tokens from a zero state are the hardest there are: a head's
    // output is then one value vector times r . k, and its group norm divides by |r . k|. Where that sum
    // nearly cancels, r and k rounded to f16 show in the logits, whatever computes them. Measured on an H200:
    // worst row 0.038 here (RWKV-6) and 0.005 behind a prompt, root mean square of a step's rows 0.005.
    for (int round = 0; round < 3; round++) {
      const RowErrors cold = row_errors(got.step(feeds), want.step(feeds));
      EXPECT_LT(cold.pooled, kLogitError) << rows << " rows, token " << round;
      EXPECT_LT(cold.worst, 5 * kLogitError) << rows << " rows, token " << round;
    }
    std::vector<Feed> prompts;
    for (int64_t row = 0; row < rows; row++) prompts.push_back({row, tokens(7, static_cast<uint32_t>(row))});
    got.step(prompts), want.step(prompts);
    for (int round = 0; round < 3; round++) {
      const RowErrors warm = row_errors(got.step(feeds), want.step(feeds));
      EXPECT_LT(warm.worst, kLogitError) << rows << " rows, token " << round;
    }
    std::vector<std::vector<float>> first;
    for (int round = 0; round < 3; round++) {
      for (int64_t row = 0; row < rows; row++) got.pool().zero(row);
      const auto packed = got.step(feeds);
      if (round == 0) first = packed;
      EXPECT_EQ(packed, first) << rows << " rows";
    }
  }
}

TEST_P(GpuModel, HalfStateStaysClose) {
  auto opened = open_test_gpu({.half_state = true});
  ASSERT_TRUE(opened.ok());
  const std::unique_ptr<Ops> half_gpu = std::move(opened).value();
  ModelRig want(synthetic_checkpoint(spec()), gpu(), 2), got(synthetic_checkpoint(spec()), *half_gpu, 2);
  ASSERT_TRUE(want.loaded() && got.loaded());
  EXPECT_LT(got.model().state_layout().slot_bytes(), want.model().state_layout().slot_bytes());
  const auto prompt = tokens(under_racecheck() ? 20 : 100, 9);
  EXPECT_LT(relative_error(got.feed(1, prompt), want.feed(1, prompt)), kLogitError);
  const int32_t tokens_after = under_racecheck() ? 2 : 20;
  for (int32_t next = 0; next < tokens_after; next++) {
    EXPECT_LT(relative_error(got.feed(1, {next}), want.feed(1, {next})), 2 * kLogitError);
  }
}

TEST_P(GpuModel, BrainFloatComputesTheSame) {
  auto opened = open_test_gpu({.activation = DType::bf16});
  ASSERT_TRUE(opened.ok());
  const std::unique_ptr<Ops> other = std::move(opened).value();
  ModelRig want(synthetic_checkpoint(spec()), gpu(), 2), got(synthetic_checkpoint(spec()), *other, 2);
  ASSERT_TRUE(want.loaded() && got.loaded());
  const auto prompt = tokens(under_racecheck() ? 20 : 50, 4);
  EXPECT_LT(relative_error(got.feed(1, prompt), want.feed(1, prompt)), 8 * kLogitError);
  EXPECT_LT(relative_error(got.feed(1, {5}), want.feed(1, {5})), 8 * kLogitError);
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuModel, testing::ValuesIn(kVersions));

// The chunked recurrence, which recur7 takes for long sequences, against the one token by token.
TEST_F(GpuTest, ChunkedRecurrenceAgreesWithTheRecurrentOne) {
  for (const std::vector<int32_t>& lengths :
       std::vector<std::vector<int32_t>>{{17}, {16, 18}, {64, 1, 33, 5}, {4097}}) {
    for (const int64_t heads : {1, 3, 64}) {
      if (heads == 64 && lengths[0] > 1000) continue;
      if (under_racecheck() && (heads == 64 || lengths[0] > 1000)) continue;
      support::OpsRig rig(gpu(), 5);
      const int64_t c = heads * 64;
      const Batch batch = rig.begin(lengths, heads, 64);
      const auto r = rig.tensor(batch.rows, c), k = rig.tensor(batch.rows, c, -2, 2),
                 v = rig.tensor(batch.rows, c);
      const auto u = rig.tensor(batch.rows, c, -8, 4), alpha = rig.tensor(batch.rows, c, 0, 1);
      const auto kk = rig.tensor(batch.rows, c, -0.125, 0.125);
      TimeMix7 att;
      att.n_head = heads;
      att.head_size = 64;
      const Projected7 p{r.tensor, k.tensor, v.tensor, {}, u.tensor, kk.tensor, alpha.tensor};
      const Tensor want = rig.empty(batch.rows, c), got = rig.empty(batch.rows, c);
      const auto before = rig.read_all_slots();
      gpu().rwkv7().wkv(batch, att, p, rig.state().wkv(0), want);
      const auto want_y = rig.read(want);
      support::Doubles want_state, got_state;
      for (const int32_t slot : rig.slots()) {
        const auto one = rig.read(rig.state().wkv(0), slot, c * 64);
        want_state.insert(want_state.end(), one.begin(), one.end());
      }
      rig.write_all_slots(before);
      gpu().rwkv7().recur(batch, att, p, rig.state().wkv(0), got);
      for (const int32_t slot : rig.slots()) {
        const auto one = rig.read(rig.state().wkv(0), slot, c * 64);
        got_state.insert(got_state.end(), one.begin(), one.end());
      }
      SCOPED_TRACE(std::to_string(heads) + " heads, first length " + std::to_string(lengths[0]));
      support::expect_close(rig.read(got), want_y, DType::f16, "y");
      support::expect_close(got_state, want_state, DType::f16, "state");
    }
  }
}

}  // namespace
}  // namespace fulmar
