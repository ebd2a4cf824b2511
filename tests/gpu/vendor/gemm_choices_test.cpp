// Algorithms of the GEMM library that are kept between starts: the file's text, and on a GPU equal bits of
// two starts.
#include "gpu/products/nvidia/gemm_choices.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "gpu/gpu_device.h"
#include "support/islands.h"

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
  const std::string text = gpu::write_gemm_choices("card", {{GemmKey{8, 64, 64, 64, 64}, algorithm(3)}});
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
  std::stringstream text;
  text << std::ifstream(folder.path / "choices").rdbuf();
  EXPECT_EQ(product(), first);
  std::stringstream again;
  again << std::ifstream(folder.path / "choices").rdbuf();
  EXPECT_FALSE(text.str().empty());
  EXPECT_EQ(text.str(), again.str()) << "a second start times nothing";
}

}  // namespace
}  // namespace fulmar
