// Figures of GPUs by a management library that is there, incomplete or absent.
#include "control/gpu_list.h"

#include <gtest/gtest.h>

#include "support/folders.h"

namespace fulmar {
namespace {

TEST(GpuList, TellsWhatTheDriverTells) {
  const auto gpus =
      GpuList(open_nvml((support::build_folder() / "libfulmar_fake_nvml.so").c_str())).figures();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].index, 0);
  EXPECT_EQ(gpus[0].name, "First GPU");
  EXPECT_EQ(gpus[0].memory_total_mb, 1000u);
  EXPECT_EQ(gpus[0].memory_used_mb, 100u) << "without what the driver keeps for itself";
  EXPECT_EQ(gpus[0].utilization, 42);
  EXPECT_EQ(gpus[0].temperature, 37);
  EXPECT_EQ(gpus[0].power, 251);
  EXPECT_EQ(gpus[1].power, std::nullopt);
  EXPECT_EQ(gpus[1].index, 1);
  EXPECT_EQ(gpus[1].name, "Second GPU");
  EXPECT_EQ(gpus[1].memory_used_mb, 700u);
  EXPECT_EQ(gpus[1].utilization, std::nullopt);
  EXPECT_EQ(gpus[1].temperature, 37);
}

TEST(GpuList, TellsWhatAnAmdDriverTells) {
  const auto gpus =
      GpuList(open_rocm_smi((support::build_folder() / "libfulmar_fake_rocm_smi.so").c_str())).figures();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "First GPU");
  EXPECT_EQ(gpus[0].memory_total_mb, 2000u);
  EXPECT_EQ(gpus[0].memory_used_mb, 150u);
  EXPECT_EQ(gpus[0].utilization, 42);
  EXPECT_EQ(gpus[0].temperature, 37);
  EXPECT_EQ(gpus[0].power, 251);
  EXPECT_EQ(gpus[1].index, 1);
  EXPECT_EQ(gpus[1].name, "Second GPU");
  EXPECT_EQ(gpus[1].utilization, std::nullopt);
  EXPECT_EQ(gpus[1].power, std::nullopt);
}

TEST(GpuList, IsEmptyWithoutADriver) {
  for (const auto open : {open_nvml, open_rocm_smi}) {
    EXPECT_EQ(open("/nowhere/libnvidia-ml.so.1"), nullptr);
    EXPECT_EQ(open("libm.so.6"), nullptr) << "a library without the functions";
  }
  EXPECT_TRUE(GpuList(nullptr).figures().empty());
}

}  // namespace
}  // namespace fulmar
