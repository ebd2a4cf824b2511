// Algorithms of the GEMM library that are kept between starts: the file's text, and on a GPU equal bits of
// two starts.
#include "gpu/gemm/library/nvidia/gemm_choices.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "gpu/gpu_device.h"
#include "model/warm_up.h"
#include "support/islands.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using gpu::GemmAlgorithm;
using gpu::GemmChoices;
using gpu::GemmKey;

GemmAlgorithm algorithm(int seed) {
  GemmAlgorithm bytes{};
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(seed + 7 * static_cast<int>(i));
  return bytes;
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("fulmar-gemm-" + std::to_string(getpid()));
  ~Folder() { std::filesystem::remove_all(path); }
};

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(GemmChoices, OutliveTheProcessForTheSameCardDriverAndLibrary) {
  const Folder folder;
  const GemmKey one{64, 4096, 16384, 4096, 16384, false, false, false, 16},
      other{64, 4096, 64, 4096, 64, true};
  GemmChoices first(folder.path / "choices", "card A");
  EXPECT_EQ(first.find(one), std::nullopt);
  first.keep(one, algorithm(1));
  first.keep(other, algorithm(200));
  const GemmChoices second(folder.path / "choices", "card A");
  EXPECT_EQ(second.find(one), algorithm(1));
  EXPECT_EQ(second.find(other), algorithm(200));
  EXPECT_EQ(GemmChoices(folder.path / "choices", "card B").find(one), std::nullopt);
}

TEST(GemmChoices, ATextThatIsNotWholeCountsAsNone) {
  const std::string text = gpu::write_gemm_choices(
      "card", {{GemmKey{8, 64, 64, 64, 64, false, false, false, 16, true}, algorithm(3)}});
  ASSERT_TRUE(gpu::read_gemm_choices(text, "card"));
  for (size_t length = 0; length + 1 < text.size(); length++) {
    EXPECT_FALSE(gpu::read_gemm_choices(text.substr(0, length), "card")) << length;
  }
  std::string spoilt = text;
  spoilt[text.find("end") - 3] = 'x';
  EXPECT_FALSE(gpu::read_gemm_choices(spoilt, "card"));
}

TEST(GemmChoices, ABucketHoldsItsRowsAndIsNeverFarAbove) {
  for (int64_t rows = 1; rows <= 5000; rows++) {
    const int64_t bucket = gpu::bucket_rows(rows);
    ASSERT_GE(bucket, rows);
    ASSERT_EQ(gpu::bucket_rows(bucket), bucket);
    ASSERT_LE(bucket, rows <= 8 ? 8 : rows * 2);
  }
}

TEST(GpuGemmChoices, TwoStartsGiveEqualBits) {
  if (shared_gpu() == nullptr) GTEST_SKIP() << "no usable GPU on this machine";
  if (under_racecheck()) GTEST_SKIP() << "plain products take the library's place";
  const Folder folder;
  const auto product = [&] {
    auto opened = open_test_gpu({.gemm_choices = folder.path / "choices"});
    EXPECT_TRUE(opened.ok());
    support::OpsRig rig(**opened, 5);
    support::RigWeights weights(rig, DType::f16);
    const Weight weight = weights.weight(1024, 512, WeightRole::ffn_key);
    support::Doubles all;
    for (const int64_t rows : {700, 640, 1000}) {
      const Tensor in = rig.tensor(rows, 512, -1, 1).tensor, out = rig.empty(rows, 1024);
      (*opened)->linear(in, weight, out);
      const support::Doubles one = rig.read(out);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const support::Doubles first = product();
  const std::string timed = text_of(folder.path / "choices");
  EXPECT_EQ(product(), first);
  EXPECT_FALSE(timed.empty());
  EXPECT_EQ(text_of(folder.path / "choices"), timed) << "a second start times nothing";
}

TEST(GemmChoices, BucketsUpToAnyNumberHoldAllRowsBelow) {
  EXPECT_EQ(gpu::row_buckets(20), (std::vector<int64_t>{8, 16, 20}));
  EXPECT_EQ(gpu::row_buckets(0), std::vector<int64_t>{});
  const std::vector<int64_t> ends = gpu::row_buckets(4096);
  EXPECT_LT(ends.size(), 32u);
  EXPECT_EQ(ends.back(), 4096);
}

TEST(GpuGemmChoices, NothingIsTimedBehindTheWarmUpOfAModel) {
  if (shared_gpu() == nullptr) GTEST_SKIP() << "no usable GPU on this machine";
  if (under_racecheck()) GTEST_SKIP() << "plain products take the library's place";
  const Folder folder;
  auto opened = open_test_gpu({.gemm_choices = folder.path / "choices"});
  ASSERT_TRUE(opened.ok());
  constexpr int64_t kRows = 300, kSequences = 40;
  support::ModelRig rig(synthetic_checkpoint(support::small_spec(7, 4, 64, DType::f16)), **opened,
                        kSequences + 1, {.max_rows = kRows, .max_wanted = kSequences});
  ASSERT_TRUE(rig.loaded());
  ASSERT_TRUE(warm_up(rig.model()).ok());
  const std::string warmed = text_of(folder.path / "choices");
  EXPECT_FALSE(warmed.empty());
  for (const int64_t rows : {1, 9, 33, 64, 100, 257, 300}) {
    rig.feed(0, std::vector<int32_t>(static_cast<size_t>(rows), 3));
  }
  for (const int64_t sequences : {2, 12, 40}) {
    std::vector<support::Feed> feeds;
    for (int64_t slot = 0; slot < sequences; slot++) feeds.push_back({slot, {5}});
    rig.step(feeds);
  }
  EXPECT_EQ(text_of(folder.path / "choices"), warmed);
}

}  // namespace
}  // namespace fulmar
