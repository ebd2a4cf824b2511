// The feed-forward of one to eight rows from packed codes in one kernel and a sum, against its composition on
// the same GPU: every kind of codes, scales of 32 inputs up to a row, one to six groups of hidden channels
// for a block, one to two pieces of inputs for a warp, nothing kept and everything.
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "cases/composed.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gpu_device.h"
#include "gpu/stages/ffn_packed.h"
#include "support/islands.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

using support::Doubles;
using support::OpsRig;

struct FfnPackedShape {
  int64_t heads, hidden;
  size_t rows;
};
std::ostream& operator<<(std::ostream& to, const FfnPackedShape& shape) {
  return to << shape.heads << " heads, " << shape.hidden << " hidden, " << shape.rows << " rows";
}

constexpr Quantisation kPackedKinds[] = {{"q8_0", DType::q8_0},         {"q4_0", DType::q4_0},
                                         {"q4_k", DType::q4_k},         {"iq4_nl", DType::iq4_nl},
                                         {"nf4", DType::nf4, 64},       {"nf4_g32", DType::nf4, 32},
                                         {"int4", DType::i4, 128},      {"int8", DType::i8, kWholeRow},
                                         {"int8_g128", DType::i8, 128}, {"fp8", DType::f8_e4m3, kWholeRow},
                                         {"int4_g32", DType::i4, 32},   {"int4_g256", DType::i4, 256},
                                         {"int8_g64", DType::i8, 64},   {"fp8_g64", DType::f8_e4m3, 64}};

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Quantisation& one : kPackedKinds) names.emplace_back(one.name);
  return names;
}

// Which hidden channels relu² leaves something of.
enum class Kept : uint8_t { half, some, none, all };

// Uniform weights as a matrix of codes.
struct MadeCodes {
  std::vector<std::byte> codes;
  std::vector<float> scales;
  HostMatrix matrix;

  MadeCodes(const Quantisation& by, int64_t out, int64_t in, auto&& weight_of) {
    std::vector<float> values(static_cast<size_t>(out * in));
    for (int64_t i = 0; i < out * in; i++) values[static_cast<size_t>(i)] = weight_of(i / in);
    codes.resize(bytes_for(by.dtype, out * in));
    scales.resize(static_cast<size_t>(out * scales_per_row(by, in)));
    encode_rows(by, values, in, codes.data(), scales.data());
    matrix = {codes.data(), by.dtype, out, in, in, 1};
    if (!scales.empty()) matrix.scales = scales.data(), matrix.group = group_of(by, in);
  }
};

using KindAndShape = std::tuple<std::string, FfnPackedShape>;

class GpuFfnPacked : public GpuTest, public testing::WithParamInterface<KindAndShape> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (shared_gpu() == nullptr) return;
    if (under_racecheck() && shape().heads > 16) GTEST_SKIP() << "such wide matrices take minutes";
    made_.emplace(gpu(), 5);
    batch_ = rig().begin(std::vector<int32_t>(shape().rows, 1), shape().heads, 64);
    ffn_.ln2 = rig().norm(width()).norm;
    ffn_.mix = rig().vector(1, width(), 0, 1).tensor;
  }
  const FfnPackedShape& shape() const { return std::get<1>(GetParam()); }
  OpsRig& rig() { return *made_; }
  int64_t width() const { return shape().heads * 64; }

  Weight import(const MadeCodes& codes, WeightRole role) {
    auto imported = gpu().import_weight(codes.matrix, role);
    EXPECT_TRUE(imported.ok());
    return imported.ok() ? *imported : Weight{};
  }
  void make_weights(Kept kept) {
    const Quantisation& by = *std::ranges::find(kPackedKinds, std::get<0>(GetParam()), &Quantisation::name);
    std::minstd_rand random(7);
    const auto number = [&](double low, double high) {
      return static_cast<float>(std::uniform_real_distribution<double>(low, high)(random));
    };
    const double most = std::sqrt(3.0 / static_cast<double>(width()));
    const MadeCodes key(by, shape().hidden, width(), [&](int64_t channel) {
      if (kept == Kept::none || (kept == Kept::some && channel % 37 != 0)) return 0.0f;
      return number(kept == Kept::all ? most / 8 : -most, most);
    });
    const double most_value = std::sqrt(3.0 / static_cast<double>(shape().hidden));
    const MadeCodes value(by, width(), shape().hidden,
                          [&](int64_t) { return number(-most_value, most_value); });
    ffn_.key = import(key, WeightRole::ffn_key);
    ffn_.value = import(value, WeightRole::ffn_value);
    if (kept != Kept::all) return;
    // Positive inputs.
    ffn_.ln2 = {rig().vector(1, width(), -0.05, 0.05).tensor, rig().vector(1, width(), 0.3, 0.4).tensor};
    ffn_.mix = rig().vector(1, width(), 0, 1e-3).tensor;
  }

  // What channel_mix7 leaves behind, by the GPU's own way or by the composition.
  Doubles mix(const support::Made& x, bool own) {
    rig().write_all_slots(states_);
    const Tensor residual = rig().same(x).tensor, out = rig().empty(batch_.rows, width());
    const StateField shift = rig().state().ffn_shift(0);
    own ? gpu().rwkv7().channel_mix(batch_, {}, ffn_, residual, {}, shift, out)
        : cases::Composed7(gpu()).channel_mix(batch_, {}, ffn_, residual, {}, shift, out);
    return rig().read(out.slice_rows(0, static_cast<int64_t>(shape().rows)));
  }
  void expect_agreement(Kept kept) {
    make_weights(kept);
    const support::Made x = rig().tensor(batch_.rows, width(), gpu().residual_dtype(), -2, 2);
    states_ = rig().read_all_slots();
    const Doubles got = mix(x, true), want = mix(x, false);
    support::expect_close(got, want, DType::f16, "out");
    double size = 0;
    for (const double one : want) size += one * one;
    EXPECT_EQ(size == 0, kept == Kept::none);
    EXPECT_EQ(mix(x, true), got);
  }

  std::optional<OpsRig> made_;
  Batch batch_;
  ChannelMix7 ffn_;
  decltype(std::declval<OpsRig&>().read_all_slots()) states_;
};

TEST_P(GpuFfnPacked, AgreesWithItsCompositionAndRepeatsItsBits) { expect_agreement(Kept::half); }
TEST_P(GpuFfnPacked, AgreesWhereLittleIsKept) { expect_agreement(Kept::some); }
TEST_P(GpuFfnPacked, IsZeroWhereNothingIsKept) { expect_agreement(Kept::none); }
TEST_P(GpuFfnPacked, AgreesWhereAllIsKept) { expect_agreement(Kept::all); }

std::string name_of(const testing::TestParamInfo<KindAndShape>& made) {
  const auto& [kind, shape] = made.param;
  return kind + "_" + std::to_string(shape.heads) + "_" + std::to_string(shape.hidden) + "_" +
         std::to_string(shape.rows);
}
INSTANTIATE_TEST_SUITE_P(
    Kinds, GpuFfnPacked,
    testing::Combine(testing::ValuesIn(kinds()),
                     testing::Values(FfnPackedShape{4, 512, 1}, FfnPackedShape{8, 12288, 1},
                                     FfnPackedShape{4, 21504, 1}, FfnPackedShape{80, 1024, 1},
                                     FfnPackedShape{4, 8192, 2}, FfnPackedShape{8, 12288, 3},
                                     FfnPackedShape{40, 1536, 5}, FfnPackedShape{4, 21504, 7},
                                     FfnPackedShape{64, 1024, 8})),
    name_of);

// What ffn_packed_parts looks at.
Weight weight_of(DType dtype, int64_t out, int64_t in, bool transposed) {
  Weight weight{dtype, out, in};
  weight.layout = gpu::code_layout(dtype, out, in, 0, transposed);
  return weight;
}
gpu::DeviceFacts device(int multiprocessors, size_t shared_memory) {
  gpu::DeviceFacts facts;
  facts.multiprocessors = multiprocessors;
  facts.shared_memory = shared_memory;
  return facts;
}

TEST(FfnPackedParts, AreOneForEachMultiprocessorOrAsManyAsThereAreGroups) {
  constexpr size_t kHopper = 232448;
  const Weight key = weight_of(DType::q4_k, 16384, 4096, false),
               value = weight_of(DType::q4_k, 4096, 16384, true);
  for (const int64_t rows : {1, 2, 3, 8}) {
    EXPECT_EQ(gpu::ffn_packed_parts(rows, key, value, device(132, kHopper)), 132);
  }
  EXPECT_EQ(gpu::ffn_packed_parts(8, key, value, device(600, kHopper)), 512);
  EXPECT_EQ(gpu::ffn_packed_parts(1, key, value, device(10, kHopper)), 64);
  EXPECT_LE(132 * 8 * 4096 * sizeof(float), gpu::most_ffn_packed_bytes(512, 4096, 16384, 132));
}

TEST(FfnPackedParts, AreNoneOfWhatDoesNotSuit) {
  const gpu::DeviceFacts hopper = device(132, 232448);
  const Weight key = weight_of(DType::q8_0, 4096, 1024, false),
               value = weight_of(DType::q8_0, 1024, 4096, true);
  EXPECT_GT(gpu::ffn_packed_parts(8, key, value, hopper), 0);
  EXPECT_EQ(gpu::ffn_packed_parts(9, key, value, hopper), 0) << "rows";
  EXPECT_EQ(gpu::ffn_packed_parts(0, key, value, hopper), 0) << "rows";
  EXPECT_EQ(gpu::ffn_packed_parts(1, key, weight_of(DType::q8_0, 1024, 4096, false), hopper), 0) << "order";
  EXPECT_EQ(gpu::ffn_packed_parts(1, key, weight_of(DType::q4_0, 1024, 4096, true), hopper), 0) << "kinds";
  EXPECT_EQ(gpu::ffn_packed_parts(1, weight_of(DType::f16, 4096, 1024, false),
                                  weight_of(DType::f16, 1024, 4096, true), hopper),
            0)
      << "16 bits";
  EXPECT_EQ(gpu::ffn_packed_parts(1, weight_of(DType::q8_0, 4096, 992, false),
                                  weight_of(DType::q8_0, 992, 4096, false), hopper),
            0)
      << "no whole pieces";
  EXPECT_EQ(gpu::ffn_packed_parts(8, weight_of(DType::q8_0, 16384, 4096, false),
                                  weight_of(DType::q8_0, 4096, 16384, true), device(132, 101376)),
            0)
      << "shared memory";
}

}  // namespace
}  // namespace fulmar
