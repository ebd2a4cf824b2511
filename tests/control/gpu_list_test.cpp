// Figures of GPUs by a management library that is there, incomplete or absent.
#include "control/gpu_list.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

TEST(GpuList, TellsWhatTheDriverTells) {
  const auto gpus = GpuList(FULMAR_BINARY_DIR "/libfulmar_fake_nvml.so").figures();
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

TEST(GpuList, IsEmptyWithoutADriver) {
  EXPECT_TRUE(GpuList("/nowhere/libnvidia-ml.so.1").figures().empty());
  EXPECT_TRUE(GpuList("libm.so.6").figures().empty()) << "a library without the functions";
}

}  // namespace
}  // namespace fulmar
