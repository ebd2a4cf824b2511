// Encoders and decoders of every quantisation: against the golden files bit for bit, and their own rules.
#include "tensor/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "support/shared_files.h"
#include "tensor/convert.h"
#include "tensor/scaled_codes.h"

namespace fulmar {
namespace {

using support::Json;

constexpr int64_t kRows = 64, kCols = 256;

// Uniform numbers in [0, 1) as the golden files make them: FNV-1a of the name, then splitmix64.
std::vector<double> uniform(std::string_view name, size_t count) {
  uint64_t seed = 0xcbf29ce484222325u;
  for (const char letter : name) seed = (seed ^ static_cast<uint8_t>(letter)) * 0x100000001b3u;
  std::vector<double> out(count);
  for (size_t i = 0; i < count; i++) {
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    out[i] = static_cast<double>((z ^ (z >> 31)) >> 40) / (1 << 24);
  }
  return out;
}

// The matrix that the golden files pack, with its special rows.
std::vector<float> golden_matrix() {
  const std::vector<double> u = uniform("quant.test", kRows * kCols);
  std::vector<float> x(u.size());
  for (size_t i = 0; i < x.size(); i++) {
    const double t = 2 * u[i] - 1;
    x[i] = static_cast<float>(0.375 * t * t * t + 0.0625 * t);
  }
  for (size_t j = 0; j < kCols; j++) {
    const auto at = [&](size_t row) -> float& { return x[row * kCols + j]; };
    at(0) = 0;
    at(1) = 0.25f;
    at(2) = j % 2 == 0 ? 0.125f : -0.25f;
    at(3) = std::abs(at(3));
    at(4) = -std::abs(at(4));
    at(5) = at(5) / 1024;
    if (j == 17) at(6) = 8;
    if (j < 64) at(7) = 0;
  }
  return x;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

std::vector<std::byte> part(const Json& kind, const char* name) {
  return support::from_base64(kind["parts"][name]["base64"].get<std::string>());
}

// The same bits, so that the sign of a zero counts, too.
void expect_same_bits(std::span<const float> got, std::span<const float> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); i++) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << what << ", element " << i << ": " << got[i] << ", wanted " << want[i];
  }
}

// Rows 6 and 8 are in the golden files in full, the others as sums.
void expect_golden_values(const std::vector<float>& got, const Json& kind) {
  const Json& wanted = kind["dequantised"];
  const std::string name = kind["kind"];
  const auto rows = floats(support::from_base64(wanted["rows_6_and_8_base64"].get<std::string>()));
  expect_same_bits(std::span(got).subspan(6 * kCols, kCols), std::span(rows).first(kCols), name + " row 6");
  expect_same_bits(std::span(got).subspan(8 * kCols, kCols), std::span(rows).last(kCols), name + " row 8");
  for (size_t row = 0; row < kRows; row++) {
    double sum = 0;
    for (size_t j = 0; j < kCols; j++) sum += static_cast<double>(got[row * kCols + j]);
    const double want = wanted["row_sums"][row];
    EXPECT_NEAR(sum, want, 1e-6 * (1 + std::abs(want))) << name << " row " << row;
  }
}

double relative_rms(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, mean = 0, squares = 0;
  for (size_t i = 0; i < want.size(); i++) {
    error += std::pow(static_cast<double>(got[i] - want[i]), 2);
    mean += static_cast<double>(want[i]);
    squares += std::pow(static_cast<double>(want[i]), 2);
  }
  mean /= static_cast<double>(want.size());
  return std::sqrt(error / (squares - mean * mean * static_cast<double>(want.size())));
}

// A matrix packed by one of our quantisations.
struct Packed {
  Quantisation quantisation;
  int64_t cols = 0;
  std::vector<std::byte> codes;
  std::vector<float> scales;

  Packed(Quantisation q, std::span<const float> values, int64_t width) : quantisation(q), cols(width) {
    const auto count = static_cast<int64_t>(values.size());
    codes.resize(bytes_for(q.dtype, count));
    scales.resize(static_cast<size_t>(count / cols * scales_per_row(q, cols)));
    encode_rows(q, values, cols, codes.data(), scales.data());
  }

  Weight weight() const {
    const auto rows = static_cast<int64_t>(codes.size() / bytes_for(quantisation.dtype, cols));
    return {quantisation.dtype,
            rows,
            cols,
            codes.data(),
            WeightLayout::rows,
            scales.empty() ? nullptr : scales.data(),
            group_of(quantisation, cols)};
  }
  std::vector<float> unpacked() const {
    const Weight all = weight();
    std::vector<float> out(static_cast<size_t>(all.out * cols));
    for (int64_t row = 0; row < all.out; row++) {
      decode_row(all, row,
                 std::span(out).subspan(static_cast<size_t>(row * cols), static_cast<size_t>(cols)));
    }
    return out;
  }
};

TEST(Quantise, BlocksDecodeToTheBitsOfTheGoldenFiles) {
  const Json golden = support::read_golden("quant-ggml");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  ASSERT_EQ(golden["kinds"].size(), 11u);
  for (const Json& kind : golden["kinds"]) {
    const auto quantisation = quantisation_named(kind["kind"].get<std::string>());
    ASSERT_TRUE(quantisation) << kind["kind"];
    const std::vector<std::byte> packed = part(kind, "blocks");
    ASSERT_EQ(packed.size(), bytes_for(quantisation->dtype, kRows * kCols));
    std::vector<float> got(kRows * kCols);
    to_f32(quantisation->dtype, packed.data(), got);
    expect_golden_values(got, kind);
  }
}

TEST(Quantise, BlocksOfEvenLevelsAreTheBytesOfTheGoldenFiles) {
  const Json golden = support::read_golden("quant-ggml");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  const std::vector<float> matrix = golden_matrix();
  for (const Json& kind : golden["kinds"]) {
    const std::string name = kind["kind"];
    const Packed packed(*quantisation_named(name), matrix, kCols);
    if (kind["quant_reference"]["same_bytes"].get<bool>()) {
      EXPECT_TRUE(packed.codes == part(kind, "blocks")) << name;
    } else {  // several packings are legal: ours is about as good as ggml's
      EXPECT_LT(relative_rms(packed.unpacked(), matrix), 1.03 * kind["relative_rms"].get<double>()) << name;
    }
  }
}

TEST(Quantise, CodesWithScalesBesideThemMatchTheGoldenFiles) {
  const Json golden = support::read_golden("quant-other");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  const std::vector<float> matrix = golden_matrix();
  const std::map<std::string, std::string> ours = {
      {"nf4", "nf4"}, {"int8_row", "int8"}, {"int8_g128", "int8_g128"}, {"fp8_row", "fp8"}};
  size_t checked = 0;
  for (const Json& kind : golden["kinds"]) {
    const std::string name = kind["kind"];
    const auto found = ours.find(name);
    if (found == ours.end()) continue;
    checked++;
    const Packed packed(*quantisation_named(found->second), matrix, kCols);
    EXPECT_TRUE(packed.codes == part(kind, "weight")) << name;
    expect_same_bits(packed.scales, floats(part(kind, name == "nf4" ? "absmax" : "scale")), name + " scales");
    expect_golden_values(packed.unpacked(), kind);
  }
  EXPECT_EQ(checked, ours.size());
}

TEST(Quantise, OneScaleAMatrixIsLegalForFp8) {
  const Json golden = support::read_golden("quant-other");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  const std::vector<float> matrix = golden_matrix();
  for (const Json& kind : golden["kinds"]) {
    if (kind["kind"] != "fp8_tensor") continue;
    const float scale = scale_of_group(DType::f8_e4m3, matrix);
    EXPECT_EQ(scale, floats(part(kind, "scale"))[0]);
    std::vector<std::byte> codes(matrix.size());
    encode_group(DType::f8_e4m3, matrix, scale, codes.data());
    EXPECT_TRUE(codes == part(kind, "weight"));
    std::vector<float> got(matrix.size());
    decode_group(DType::f8_e4m3, codes.data(), scale, got);
    expect_golden_values(got, kind);
    return;
  }
  FAIL() << "the golden files have no fp8_tensor";
}

TEST(Quantise, NestedScalesMatchTheGoldenFiles) {
  const Json golden = support::read_golden("quant-other");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  for (const Json& kind : golden["kinds"]) {
    if (kind["kind"] != "nf4_dq") continue;
    const std::vector<float> map = floats(part(kind, "nested_quant_map")), made = dynamic_map();
    ASSERT_EQ(made.size(), map.size());
    for (size_t i = 0; i < map.size(); i++) EXPECT_NEAR(made[i], map[i], 6e-8) << i;
    const Packed plain(*quantisation_named("nf4"), golden_matrix(), kCols);
    const NestedScales nested = nest_scales(plain.scales, map);
    std::vector<std::byte> index(nested.index.size());
    std::memcpy(index.data(), nested.index.data(), index.size());
    EXPECT_TRUE(index == part(kind, "absmax"));
    EXPECT_NEAR(nested.offset, floats(part(kind, "nested_offset"))[0], 1e-8);
    EXPECT_NEAR(nested.block_scale[0], floats(part(kind, "nested_absmax"))[0], 1e-7);

    NestedScales stored;
    for (const std::byte code : part(kind, "absmax")) stored.index.push_back(static_cast<uint8_t>(code));
    stored.block_scale = floats(part(kind, "nested_absmax"));
    stored.map = map;
    stored.offset = floats(part(kind, "nested_offset"))[0];
    Packed unnested = plain;
    unnested.scales = unnest_scales(stored);
    expect_golden_values(unnested.unpacked(), kind);
    return;
  }
  FAIL() << "the golden files have no nf4_dq";
}

// Largest error of a normally distributed matrix, relative to its root mean square.
TEST(Quantise, ErrorsStayWithinWhatTheBitsPromise) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> matrix(32 * 512);
  for (float& value : matrix) value = normal(random);
  const std::map<std::string_view, double> limits = {
      {"q8_0", 0.006}, {"q6_k", 0.02}, {"q5_k", 0.04},   {"q5_1", 0.04},      {"q5_0", 0.05}, {"q4_k", 0.08},
      {"q4_1", 0.08},  {"q4_0", 0.09}, {"iq4_nl", 0.08}, {"q3_k", 0.16},      {"q2_k", 0.31}, {"nf4", 0.1},
      {"int8", 0.01},  {"int4", 0.13}, {"fp8", 0.03},    {"int8_g128", 0.008}};
  for (const Quantisation& quantisation : all_quantisations()) {
    const auto limit = limits.find(quantisation.name);
    ASSERT_NE(limit, limits.end()) << quantisation.name;
    const double error = relative_rms(Packed(quantisation, matrix, 512).unpacked(), matrix);
    EXPECT_LT(error, limit->second) << quantisation.name;
    EXPECT_GT(error, limit->second / 4) << quantisation.name << ": too good to be that format";
  }
}

TEST(Quantise, ZerosSubnormalsAndSpikesStayFinite) {
  for (const Quantisation& quantisation : all_quantisations()) {
    for (const float spike : {0.0f, 1e-42f, -1e-30f, 1e4f}) {
      std::vector<float> row(256, 0.0f);
      row[77] = spike;
      const std::vector<float> got = Packed(quantisation, row, 256).unpacked();
      for (const float value : got) {
        ASSERT_TRUE(std::isfinite(value)) << quantisation.name << " " << spike;
        ASSERT_LE(std::abs(value), 1.1f * std::abs(spike)) << quantisation.name << " " << spike;
      }
    }
  }
}

TEST(Quantise, Fp8CodesRoundTrip) {
  for (int code = 0; code < 256; code++) {
    const float value = f8_e4m3_to_f32(static_cast<uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(f32_to_f8_e4m3(value), code);
    }
  }
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448);
  EXPECT_EQ(f8_e4m3_to_f32(0x08), 0x1p-6f);
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_EQ(f32_to_f8_e4m3(1e9f), 0x7e);
  EXPECT_EQ(f32_to_f8_e4m3(-INFINITY), 0xfe);
  EXPECT_EQ(f32_to_f8_e4m3(17.0f), 0x58) << "a tie between 16 and 18 goes to the even code";
  EXPECT_EQ(f32_to_f8_e4m3(19.0f), 0x5a) << "a tie between 18 and 20 goes to the even code";
}

TEST(Quantise, Int4IsTwosComplementWithTheLowNibbleFirst) {
  std::vector<float> row(128, 0.0f);
  row[0] = 7;
  row[1] = -7;
  row[2] = -1;
  const Packed packed(*quantisation_named("int4"), row, 128);
  EXPECT_EQ(packed.scales[0], 1);
  EXPECT_EQ(packed.codes[0], std::byte{0x97});
  EXPECT_EQ(packed.codes[1], std::byte{0x0f});
  EXPECT_EQ(packed.unpacked(), row);
}

TEST(Quantise, RowsThatDoNotFitFallBackToTheNextBetterKind) {
  const auto fallback = [](const char* name, int64_t cols) {
    const auto found = fitting(*quantisation_named(name), cols);
    return found ? std::string(found->name) : "none";
  };
  EXPECT_EQ(fallback("q4_k", 512), "q4_k");
  EXPECT_EQ(fallback("q4_k", 96), "q5_0");
  EXPECT_EQ(fallback("q5_k", 96), "q5_1");
  EXPECT_EQ(fallback("q6_k", 96), "q8_0");
  EXPECT_EQ(fallback("q3_k", 96), "q4_0");
  EXPECT_EQ(fallback("q2_k", 96), "q4_0");
  EXPECT_EQ(fallback("nf4", 96), "iq4_nl");
  EXPECT_EQ(fallback("int4", 96), "q4_0");
  EXPECT_EQ(fallback("int8_g128", 96), "int8");
  EXPECT_EQ(fallback("nf4", 80), "none");
  EXPECT_EQ(fallback("q4_k", 48), "none");
  EXPECT_EQ(fallback("q8_0", 48), "none");
  EXPECT_EQ(fallback("int8", 96), "int8");
  EXPECT_FALSE(quantisation_named("q4_x"));
}

}  // namespace
}  // namespace fulmar
