// The generator against the numbers that the recipe's description lists, and against the recipe's own
// formula.
#include "files/synthetic.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <fstream>

#include "files/identify.h"
#include "support/folders.h"
#include "support/golden.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

SyntheticSpec tiny7() {
  return {.version = 7,
          .n_layer = 3,
          .n_head = 4,
          .head_size = 64,
          .vocab = 256,
          .rank_w = 64,
          .rank_a = 64,
          .rank_v = 32,
          .rank_g = 128};
}

std::vector<float> values_of(const Checkpoint& checkpoint, std::string_view name) {
  const StoredTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(tensor->count()));
  copy_as_f32(*tensor, values);
  return values;
}

SyntheticSpec spec_of(simdjson::dom::element recipe) {
  const auto number = [&](const char* field) -> int64_t {
    int64_t value = 0;
    return recipe[field].get(value) == simdjson::SUCCESS ? value : 0;
  };
  SyntheticSpec spec;
  spec.version = static_cast<int>(number("version"));
  spec.n_layer = number("n_layer");
  spec.n_head = number("n_head");
  spec.head_size = number("head_size");
  spec.vocab = number("vocab");
  spec.deep_embed_rank = number("deep_embed");
  double mult = spec.version == 7 ? 4.0 : 3.5;
  if (recipe["ffn_mult"].get(mult) != simdjson::SUCCESS) mult = 4.0;
  spec.n_ffn = static_cast<int64_t>(static_cast<double>(spec.n_head * spec.head_size) * mult) / 32 * 32;
  std::vector<int64_t> ranks;
  for (const int64_t rank : recipe["ranks"].get_array()) ranks.push_back(rank);
  if (spec.version == 7) {
    spec.rank_w = ranks[0], spec.rank_a = ranks[1], spec.rank_v = ranks[2], spec.rank_g = ranks[3];
  } else {
    spec.rank_mix = ranks[0], spec.rank_decay = ranks[1];
  }
  return spec;
}

TEST(Synthetic, FirstElementsFollowTheRecipe) {
  const auto checkpoint = synthetic_checkpoint(tiny7());
  const std::vector<float> emb = values_of(*checkpoint, "emb.weight");
  ASSERT_EQ(emb.size(), 256u * 256u);
  const uint32_t draws[] = {0x8395c8, 0xb3b79f, 0xa5c07b, 0x9ab107};
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(emb[i], static_cast<float>(2.0 * (draws[i] / 16777216.0) - 1.0)) << i;
  }
}

class SyntheticGolden : public testing::TestWithParam<const char*> {};

TEST_P(SyntheticGolden, TensorsHaveTheListedFirstLastAndChecksum) {
  const std::string path = (support::source_folder() / "../shared/golden" / GetParam()).string();
  if (!std::ifstream(path)) GTEST_SKIP() << path << " is not there";
  simdjson::dom::parser parser;
  simdjson::dom::element golden = parser.load(path);
  const auto checkpoint = synthetic_checkpoint(spec_of(golden["recipe"]));
  size_t checked = 0;
  for (const auto field : golden["weight_probe_first_last_chk"].get_object()) {
    const std::vector<float> values = values_of(*checkpoint, field.key);
    ASSERT_FALSE(values.empty()) << field.key;
    double checksum = 0;
    for (size_t i = 0; i < values.size(); i++) {
      checksum += values[i] * (static_cast<double>(i * 7919 % 1009) / 1009);
    }
    EXPECT_EQ(values.front(), static_cast<float>(double(field.value.at(0)))) << field.key;
    EXPECT_EQ(values.back(), static_cast<float>(double(field.value.at(1)))) << field.key;
    EXPECT_NEAR(checksum, double(field.value.at(2)), 1e-9 * static_cast<double>(values.size())) << field.key;
    checked++;
  }
  EXPECT_GE(checked, 10u);
}

INSTANTIATE_TEST_SUITE_P(Recipes, SyntheticGolden,
                         testing::Values("synth-rwkv7.json", "synth-rwkv7-state.json", "synth-rwkv7a.json",
                                         "synth-rwkv6.json", "synth-rwkv6-state.json"),
                         [](const auto& recipe) {
                           const std::string_view name = recipe.param;
                           return support::parameter_name(name.substr(0, name.size() - 5));
                         });

TEST(Synthetic, SixteenBitValuesAreTheRoundedOnes) {
  SyntheticSpec spec = tiny7();
  const auto f32 = synthetic_checkpoint(spec);
  spec.dtype = DType::f16;
  const auto f16 = synthetic_checkpoint(spec);
  spec.dtype = DType::bf16;
  const auto bf16 = synthetic_checkpoint(spec);
  const char* name = "blocks.2.ffn.key.weight";
  const std::vector<float> exact = values_of(*f32, name), half = values_of(*f16, name),
                           brain = values_of(*bf16, name);
  for (size_t i = 0; i < exact.size(); i += 97) {
    EXPECT_EQ(half[i], f16_to_f32(f32_to_f16(exact[i])));
    EXPECT_EQ(brain[i], bf16_to_f32(f32_to_bf16(exact[i])));
  }
}

// Long rows are put together from encoded runs, short ones are encoded whole.
TEST(Synthetic, QuantisedMatricesHaveTheSpreadOfTheRecipe) {
  for (const Quantisation& by : all_quantisations()) {
    for (const int64_t heads : {4, 2}) {  // rows of 256 and of 128
      SyntheticSpec spec = tiny7();
      spec.head_size = 64, spec.n_head = heads, spec.n_ffn = 512;
      spec.dtype = DType::f16;
      const auto plain = synthetic_checkpoint(spec);
      spec.quantisation = by;
      const auto checkpoint = synthetic_checkpoint(spec);
      for (const char* name : {"blocks.0.att.key.weight", "blocks.1.ffn.value.weight"}) {
        const StoredTensor* tensor = checkpoint->find(name);
        ASSERT_NE(tensor, nullptr);
        const auto wanted = fitting(by, tensor->shape[1]);
        EXPECT_EQ(tensor->dtype, wanted ? wanted->dtype : DType::f16) << by.name << " " << name;
        const std::vector<float> got = values_of(*checkpoint, name), want = values_of(*plain, name);
        double square = 0, wanted_square = 0;
        for (size_t i = 0; i < got.size(); i++) {
          square += static_cast<double>(got[i]) * static_cast<double>(got[i]);
          wanted_square += static_cast<double>(want[i]) * static_cast<double>(want[i]);
        }
        EXPECT_NEAR(square / wanted_square, 1, 0.1) << by.name << " " << name;
      }
      EXPECT_EQ(checkpoint->find("emb.weight")->dtype, DType::f16);
      EXPECT_EQ(checkpoint->find("head.weight")->dtype, DType::q8_0);
    }
  }
}

TEST(Synthetic, PresetsHaveTheSizesOfTheReleasedModels) {
  EXPECT_EQ(synthetic_preset_names().size(), 10u);
  EXPECT_FALSE(synthetic_preset("rwkv7-9b").has_value());
  const auto checkpoint = synthetic_checkpoint(*synthetic_preset("rwkv7-0.1b"));
  const Result<ModelConfig> config = identify(*checkpoint);
  ASSERT_TRUE(config.ok()) << config.error().text;
  EXPECT_EQ(config->parameters, 191'034'624);
  EXPECT_EQ(config->dtype, DType::f16);
  EXPECT_EQ(config->n_head, 12);
}

// Feeds the first feed-forward matrix with mixed layer-normed noise, as the model does.
double share_of_zeros(const Checkpoint& checkpoint) {
  const std::vector<float> key = values_of(checkpoint, "blocks.0.ffn.key.weight");
  const std::vector<float> weight = values_of(checkpoint, "blocks.0.ln2.weight");
  const std::vector<float> bias = values_of(checkpoint, "blocks.0.ln2.bias");
  const std::vector<float> mix = values_of(checkpoint, "blocks.0.ffn.x_k");
  const size_t c = weight.size();
  const auto noise = [&](int seed) {
    std::vector<double> x(c);
    double mean = 0, square = 0;
    uint64_t z = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15 + 1;
    for (double& v : x) {
      v = 0;
      for (int i = 0; i < 12; i++) {
        z = z * 6364136223846793005ULL + 1442695040888963407ULL;
        v += static_cast<double>(z >> 33) / 2147483648.0;
      }
      mean += v / static_cast<double>(c);
    }
    for (const double v : x) square += (v - mean) * (v - mean) / static_cast<double>(c);
    for (size_t i = 0; i < c; i++) x[i] = (x[i] - mean) / std::sqrt(square) * weight[i] + bias[i];
    return x;
  };
  int64_t zeros = 0, all = 0;
  for (int token = 0; token < 8; token++) {
    const std::vector<double> now = noise(2 * token), before = noise(2 * token + 1);
    for (size_t f = 0; f < key.size() / c; f++) {
      double sum = 0;
      for (size_t i = 0; i < c; i++) sum += (now[i] + (before[i] - now[i]) * mix[i]) * key[f * c + i];
      zeros += sum <= 0;
      all++;
    }
  }
  return static_cast<double>(zeros) / static_cast<double>(all);
}

TEST(Synthetic, TheShareOfFeedForwardZerosCanBeChosen) {
  SyntheticSpec spec = tiny7();
  EXPECT_NEAR(share_of_zeros(*synthetic_checkpoint(spec)), 0.5, 0.06);
  for (const double share : {0.7, 0.85, 0.95}) {
    spec.ffn_zeros = share;
    EXPECT_NEAR(share_of_zeros(*synthetic_checkpoint(spec)), share, 0.05) << share;
  }
}

}  // namespace
}  // namespace fulmar
